"""Where do jobs run?"""
