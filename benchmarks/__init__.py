"""How the numbers in the documents are measured; each file is a command of its own."""
