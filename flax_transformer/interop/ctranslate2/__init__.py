"""Our models in CTranslate2, and its search behind the interface of Translator."""
