"""What a person sees of a run: progress, curves, spikes, early stopping, traces."""
