"""The operations that layers are made of: products, dropout, eight-bit weights."""
