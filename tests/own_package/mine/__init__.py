"""A credit rule, a task, a recipe and an experiment of one's own."""
