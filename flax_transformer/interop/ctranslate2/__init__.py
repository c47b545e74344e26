"""Our models in CTranslate2, and a Translator that searches with it."""
