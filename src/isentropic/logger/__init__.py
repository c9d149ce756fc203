"""Where are the numbers written? `metrics.csv` under our own names, other places under those one chooses."""
