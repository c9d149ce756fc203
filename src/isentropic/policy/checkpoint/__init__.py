"""Can training go on from here?"""
