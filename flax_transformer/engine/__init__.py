"""Training for any task: the step, the loop around it, the optimizer, the state."""
