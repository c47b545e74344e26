"""A clean English-German corpus of distinct sentences, made from parts: nothing in it is to be reported."""

import itertools
import random
from pathlib import Path

SUBJECTS = [
    ('The old man', 'Der alte Mann'),
    ('A young woman', 'Eine junge Frau'),
    ('My neighbour from the second floor', 'Mein Nachbar aus dem zweiten Stock'),
    ('The teacher', 'Die Lehrerin'),
    ('Our doctor', 'Unser Arzt'),
    ('The little girl with the red shoes', 'Das kleine Mädchen mit den roten Schuhen'),
    ('His brother', 'Sein Bruder'),
    ('Everyone', 'Jeder'),
    ('The mayor of our small town', 'Der Bürgermeister unserer kleinen Stadt'),
    ('She', 'Sie'),
    ('Nobody in the whole village', 'Niemand im ganzen Dorf'),
]
DEEDS = [
    ('reads a newspaper', 'liest', 'eine Zeitung'),
    ('buys bread and cheese', 'kauft', 'Brot und Käse'),
    ('looks for the key', 'sucht', 'den Schlüssel'),
    ('writes a long letter to the queen', 'schreibt', 'der Königin einen langen Brief'),
    ('sings', 'singt', 'laut'),
    ('drinks coffee', 'trinkt', 'Kaffee'),
    ('paints the portrait of a famous general', 'malt', 'das Bild eines berühmten Generals'),
    ('sleeps', 'schläft', 'gut'),
    ('explains the difficult rules of the game', 'erklärt', 'die schwierigen Regeln des Spiels'),
    ('waits 35 minutes', 'wartet', '35 Minuten'),
    ('counts 1,250 stars', 'zählt', '1.250 Sterne'),
]
PLACES = [
    ('in the garden', 'im Garten'),
    ('behind the church', 'hinter der Kirche'),
    ('at home', 'zu Hause'),
    ('on the bridge over the wide river', 'auf der Brücke über den breiten Fluss'),
    ('here', 'hier'),
    ('in the corner of the quiet library', 'in der Ecke der stillen Bibliothek'),
    ('next to the station', 'neben dem Bahnhof'),
]
ENDS = [
    ('.', '.'),
    (', because it is raining.', ', weil es regnet.'),
    (' every morning before work!', ' jeden Morgen vor der Arbeit!'),
    (', although the exhibition has been closed for years.', ', obwohl die Ausstellung seit Jahren geschlossen ist.'),
    (', right?', ', oder?'),
]
SPLITS = {'train': 500, 'validation': 60, 'test': 60}

Sides = tuple[list[bytes], list[bytes]]


def clean_corpus() -> dict[str, Sides]:
    """Sources and targets of each split, as lines of UTF-8; no sentence comes twice on its side."""
    pairs = [
        (f'{subject[0]} {deed[0]} {place[0]}{end[0]}', f'{subject[1]} {deed[1]} {place[1]} {deed[2]}{end[1]}')
        for subject, deed, place, end in itertools.product(SUBJECTS, DEEDS, PLACES, ENDS)
    ]
    random.Random(0).shuffle(pairs)
    drawn = iter(pairs)
    corpus = {}
    for split, count in SPLITS.items():
        lines = [tuple(text.encode() for text in pair) for pair in itertools.islice(drawn, count)]
        corpus[split] = tuple(map(list, zip(*lines, strict=True)))
    return corpus


def write_corpus(folder: Path, corpus: dict[str, Sides]) -> None:
    """Files SPLIT.en and SPLIT.de."""
    for split, sides in corpus.items():
        for language, lines in zip(('en', 'de'), sides, strict=True):
            (folder / f'{split}.{language}').write_bytes(b''.join(line + b'\n' for line in lines))
