"""How fast is it, and where does the time go?"""
