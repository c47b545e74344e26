"""Speech: a waveform in, the text of what is said out, by connectionist temporal classification."""
