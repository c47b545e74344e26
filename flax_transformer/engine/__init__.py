"""What trains anything: the step, the loop around it, the optimizer, the state."""
