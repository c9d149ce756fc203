"""How good is it now?"""
