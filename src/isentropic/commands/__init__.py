"""What can one ask for, beside training and scoring?"""
