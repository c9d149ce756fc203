"""What does the policy think of each token?"""
