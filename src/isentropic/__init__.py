"""RLVR research in which entropy is a controlled quantity. One folder per question, one file per answer."""

__version__ = "0.2.0"
