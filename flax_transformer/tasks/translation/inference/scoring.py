"""Given translations, scored as a search would rank them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flax_transformer.tasks.translation.inference.result import Translation, Translations, make_translation
from flax_transformer.text.tokenizer import as_text

if TYPE_CHECKING:
    from flax_transformer.tasks.translation.inference.translator import Translator


def score(
    translator: 'Translator',
    sources: str | bytes | Sequence[str | bytes],
    targets: str | bytes | Sequence[str | bytes],
    *,
    alignment: bool = False,
) -> Translation | Translations:
    """`Translator.score`."""
    if isinstance(sources, (str, bytes)) or isinstance(targets, (str, bytes)):
        return score(translator, [sources], [targets], alignment=alignment)[0]
    sources, targets = ([as_text(text)[0] for text in side] for side in (sources, targets))
    if len(sources) != len(targets):
        raise ValueError(f'{len(sources)} sources, {len(targets)} targets; expected equal numbers')
    columns = (
        translator.tokenizer.encode(sources, target_language=translator.decoding.target_language),
        translator.encode_target(targets),
    )
    translator.programs.check_lengths('source', sources, columns[0])
    translator.programs.check_lengths('target', targets, columns[1])
    scored = translator.runner.map(translator.programs.score_ids, translator.weights, columns)
    translator.programs.check_numbers(translator.weights, (total for total, _ in scored))
    links = translator.links(*columns) if alignment else [None] * len(sources)
    out = Translations()
    for target, source, ids, (total, gains), link in zip(targets, *columns, scored, links, strict=True):
        one = make_translation(translator.tokenizer, ids, total, gains[: len(ids)], is_finished=True)
        one = replace(one, text=target, alignment=link)
        out.append(translator.calibration.judged(one, len(source)) if translator.calibration else one)
    return out
