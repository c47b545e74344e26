"""How a run is watched: progress, curves, spikes, early stopping, traces."""
