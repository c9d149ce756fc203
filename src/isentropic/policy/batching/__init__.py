"""Which rows go through the model together?"""
