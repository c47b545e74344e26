"""From text on disk to batches: lines, order, parallel text (`bitext`), and what is wrong with a corpus (`audit`)."""
