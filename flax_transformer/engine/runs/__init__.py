"""What a run keeps on disk: config, checkpoints and their checksums, metrics."""
