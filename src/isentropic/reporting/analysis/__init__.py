"""What do the numbers say?"""
