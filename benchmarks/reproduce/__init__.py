"""Results that anybody can repeat: trains the seeds of an experiment, scores them, fills the tables of RESULTS.md."""
