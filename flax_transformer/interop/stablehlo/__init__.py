"""A translator as a program that JAX alone can run."""
