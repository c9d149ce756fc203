"""What was asked for, and can it be?"""
