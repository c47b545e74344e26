"""From waveforms to the features that speech models read."""
