"""A config of a fitting size for given files."""
