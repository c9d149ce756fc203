"""Who watches?"""
