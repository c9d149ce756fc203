"""How do answers become batches?"""
