"""Translators as others run them: StableHLO, CTranslate2, and runs from and to Hugging Face's folders."""
