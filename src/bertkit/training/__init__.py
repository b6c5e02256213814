"""Training: the loop, its optimizers and schedules, checkpoints, and what a run writes down."""
