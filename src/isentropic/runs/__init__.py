"""What does a run folder hold?"""
