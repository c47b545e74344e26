"""Text to ids and back: SentencePiece, and segmentations drawn at random."""
