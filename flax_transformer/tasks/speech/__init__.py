"""Speech to text, by connectionist temporal classification."""
