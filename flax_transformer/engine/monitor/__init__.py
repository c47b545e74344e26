"""How a run is watched: progress, spikes, early stopping, reports, trackers, advice."""
