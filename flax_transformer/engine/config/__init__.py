"""The engine's sections of a config."""
