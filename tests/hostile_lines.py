"""Lines that a tokenizer may stumble over."""

HOSTILE = [
    '',
    ' ',
    '   two  spaces   ',
    '\ttab\u00a0no-break\u3000wide\u200bzero',
    'e\u0301 and \u00e9, ﬁ and ½, ①',
    '\u2581 the sign itself \u2581\u2581x',
    'emoji 👩‍👩‍👧‍👦 🏳️‍🌈, Ελληνικά, русский, 日本語, العربية',
    '\x00\x01\x1f control \x7f',
    '<0x41> <s> < /s> <unk <pad',
    'a' * 3000,
    '<2de> <2fr>',
    '>> not a tag',
    'a >>fr<< in the middle',
]
