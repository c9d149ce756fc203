"""Compose, build, fit: `python -m isentropic.train experiment=quickstart`."""
