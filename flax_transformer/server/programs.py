"""What a server compiles for a translator before it is asked, and what a token costs with it."""

import time
from typing import Any

import numpy as np

from flax_transformer.tasks.translation.inference.asked import Asked
from flax_transformer.tasks.translation.inference.batch_runner import Program
from flax_transformer.tasks.translation.inference.terms import FEW
from flax_transformer.tasks.translation.inference.translator import Translator

_FEW = 7  # pieces of a short source


def programs_of_batch(translator: Translator, slots: int, wanted: dict[str, Any], count: int) -> list[Program]:
    """What translates so many parts in one call."""
    rows = translator.runner.rows_for(count, slots, is_rare=bool(wanted.get('demands')))
    return translator.programs_for(slots, rows, **wanted)


def usual_programs(translator: Translator) -> tuple[list[Program], list[Program]]:
    """What short texts need, and what is compiled while they are translated already."""
    runner = translator.runner
    short = runner.slots(1)
    common = []
    others = []
    for rows, slots in runner.shapes():
        (common if slots == short else others).extend(translator.programs_for(slots, rows))
    sizes = runner.sizes(short)
    if translator.can_align:
        for rows in sizes:
            others += translator.programs_for(short, rows, alignment=True)[1:]
    if translator.decoding.search == 'beam' and translator.decoding.beam_width > 1:
        for slots in dict.fromkeys(slots for _, slots in runner.shapes()):
            for rows in (1, runner.most(slots)):
                others += programs_of_batch(translator, slots, {'demands': (*FEW, False)}, rows)
    return common, list({program.key: program for program in others}.values())


def seconds_per_token(translator: Translator) -> float:
    """What a full batch takes for each token of its sources; short ones, as requests wait for this."""
    runner = translator.runner
    slots = runner.slots(1)
    rows = translator.most(slots, translator.engine_of(Asked([''], [[0]], None, None, (), None)))
    shape = rows, min(slots - 1, _FEW)
    pieces = np.random.default_rng(0).integers(translator.tokenizer.vocab_size, size=shape).tolist()
    sources = [[*row, translator.tokenizer.eos_id] for row in pieces]
    began = time.monotonic()
    translations = translator.translate_parts(Asked([''] * rows, sources, None, None, (), None))
    longest = max(len(translation.token_ids) for translation in translations)
    return (time.monotonic() - began) / rows / max(longest, 1)
