"""What every room needs: errors, checks of fields, configs as files, locks, the cache of compiled programs."""
