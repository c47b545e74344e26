"""Text to ids and back: SentencePiece, and random segmentations."""
