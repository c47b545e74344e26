"""What every folder of the package may use: errors, config files, locks, the cache of compiled programs."""

__version__ = '0.1.0'  # pyproject.toml reads it here
