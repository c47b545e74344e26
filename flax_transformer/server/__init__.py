"""Translation over HTTP: by APIs of its own, of LibreTranslate and of DeepL, and by a page."""
