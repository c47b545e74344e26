"""Documents: their formats, and the tags and literals within a text."""
