"""Marian's models in the format of Hugging Face: settings, weights, tokenizer; read and written."""
