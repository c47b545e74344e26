"""What every folder of the package may use: errors, config files, locks, the cache of compiled programs."""
