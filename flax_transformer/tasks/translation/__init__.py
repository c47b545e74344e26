"""Translation: text in one language to text in another."""
