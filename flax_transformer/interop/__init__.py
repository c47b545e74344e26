"""Translators as others run them: StableHLO, CTranslate2."""
