"""Which log-prob and entropy has each token?"""
