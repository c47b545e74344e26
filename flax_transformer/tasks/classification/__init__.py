"""Classification: a text in, a label out."""
