"""What the layers of every model are made of: products, embeddings, dropout, eight-bit weights."""
