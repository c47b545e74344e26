"""The operations that layers are made of: products on rows, dropout, eight-bit weights."""
