"""Marian, NLLB-200, M2M-100, mBART-50 and T5 in Hugging Face's format: settings, weights, tokenizer."""
