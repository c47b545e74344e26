"""Gettext's messages."""

import re

from flax_transformer.common.errors import UserError
from flax_transformer.common.installing import imported

from .document import Document, plain_parts


def read_po(text: str, place: str) -> Document:
    try:
        file = imported('polib', 'documents', 'PO').pofile(f'{text}\n')
    except OSError as error:
        line, _, why = str(error).partition('line ')[2].partition(')')
        got = why.strip(': ') or 'no line of a PO file'
        raise UserError(f'{place}, line {line}: got {got}; expected msgid, msgstr, "text" or a comment') from None
    header = re.search(r'nplurals\s*=\s*(\d+)', file.metadata.get('Plural-Forms', ''))
    count = int(header[1]) if header else 2
    units = []
    owners = []
    faults = []

    for entry in file:
        forms = {None: entry.msgstr}
        wanted = [None]
        if entry.msgid_plural:
            forms = entry.msgstr_plural
            wanted = range(count)
        if entry.msgid_plural and (not header or {*forms} != {*wanted}):
            got = ', '.join(f'msgstr[{form}]' for form in sorted(forms)) or 'no msgstr[0]'
            why = '' if header else '; the header has no Plural-Forms'
            faults.append(f'{place}, line {max(entry.linenum, 1)}: got {got}, expected {count} plural forms{why}')

        for form in wanted:
            if not entry.obsolete and not forms.get(form):
                is_plural = form is not None and (form > 0 or count == 1)
                units.append(plain_parts(entry.msgid_plural if is_plural else entry.msgid))
                owners.append((entry, form))

    def write(texts: list[str]) -> str:
        for (entry, form), translation in zip(owners, texts, strict=True):
            if form is None:
                entry.msgstr = translation
            else:
                entry.msgstr_plural[form] = translation
        return str(file)

    return Document(units, write, faults)
