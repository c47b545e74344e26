"""Lines to train a small tokenizer on."""

LINES = [f'The quick brown fox jumps over lazy dog number {n}.' for n in range(200)]
LINES += [f'Größe, Straße und {n} süße Äpfel' for n in range(50)]
