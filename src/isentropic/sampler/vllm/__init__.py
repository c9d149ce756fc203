"""How does vLLM answer?"""
