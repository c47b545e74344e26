"""Lines of text in, translations out."""
