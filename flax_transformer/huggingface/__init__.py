"""Marian, NLLB-200, M2M-100 and mBART-50 in Hugging Face's format: settings, weights, tokenizer; read and written."""
