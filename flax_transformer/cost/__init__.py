"""What a training step costs, before it is run."""
