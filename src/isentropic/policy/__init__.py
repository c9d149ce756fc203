"""Who learns?"""
