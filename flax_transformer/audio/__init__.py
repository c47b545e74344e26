"""From a waveform to the features that a speech model reads, and what training does to both."""
