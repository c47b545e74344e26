"""From text on disk to batches: order, files, parallel text (`bitext`), and what is wrong with a corpus (`audit`)."""
