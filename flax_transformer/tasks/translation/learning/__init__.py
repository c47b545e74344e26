"""What a translation model learns from its users' corrections."""
