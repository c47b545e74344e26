"""Parts of lines, as token ids, through the compiled programs of a model."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.decoding.problem import Hypotheses
from flax_transformer.decoding.search import output_slots
from flax_transformer.text.tokenizer import Tokenizer

from .asked import Asked
from .batch_runner import Program, Runner
from .noisy_channel import WayBack, reranked
from .programs import Programs
from .result import Translation, align_ids, best_of_each, has_loop


class PartTranslator:
    """Translates and aligns token ids; what a `Translator` of lines stands on."""

    programs: Programs
    weights: Any  # the parameters as the programs take them
    tokenizer: Tokenizer
    decoding: DecodingConfig
    target_language: str | None
    first_id: int | None  # begins every target
    way_back: WayBack | None  # None: hypotheses are not reranked

    @property
    def runner(self) -> Runner:
        return self.programs.runner

    @property
    def translate_ids(self) -> Callable[..., Hypotheses]:
        """`ids.translate_ids(weights, source, ...)`, jitted, with this search; usable within other JAX programs."""
        return self.programs.translate_ids

    def translate_parts(self, asked: Asked) -> list[Translation]:
        """The translations of parts, aligned where that is asked for.

        A part with terms in its source is translated without them, too, and the translation that its search ranks
        higher is taken: the terms change what the model says of other words.
        """
        best = self._search(asked, asked.sources)
        marks = self.tokenizer.marks
        is_ranked_by_score = self.decoding.search == 'beam' and self.decoding.mbr == 'none'
        rows = [i for i, ids in enumerate(asked.sources) if is_ranked_by_score and marks and marks[0] in ids]
        if rows:
            plain = asked.without_marks(rows, marks)
            lengths = [len(asked.sources[i]) for i in rows]  # so that no other program is needed
            padding = [self.tokenizer.pad_id]
            padded = [ids + padding * (length - len(ids)) for ids, length in zip(plain.sources, lengths, strict=True)]
            found = zip((best[i] for i in rows), self._search(plain, padded), strict=True)
            rivals = [sorted(both, key=_rank) for both in found]
            if self.way_back:
                rivals = self._reranked(plain, padded, rivals)
            for i, (first, _) in zip(rows, rivals, strict=True):
                best[i] = first

        chosen = []
        for i in itertools.compress(range(len(best)), asked.alignment):
            best[i] = replace(best[i], alignment=())
            if len(best[i].token_ids) > 1:  # not EOS alone
                chosen.append(i)
        if chosen:
            links = self.links([asked.sources[i] for i in chosen], [list(best[i].token_ids) for i in chosen])
            for i, link in zip(chosen, links, strict=True):
                best[i] = replace(best[i], alignment=link)
        return best

    def _search(self, asked: Asked, sources: list[list[int]]) -> list[Translation]:
        columns = self._columns(sources, asked.prefixes)
        demands = asked.demands
        function = self.translate_ids
        last = []
        if demands:
            function = self.programs.translate_required
            last = [demands.phrases]
            if demands.places is not None and self.programs.has_places:
                last.append(demands.places)
        hypotheses = self.runner.map(function, self.weights, columns, asked.progress, last=last)
        self.programs.check_numbers(self.weights, (ranked.scores[0] for ranked in hypotheses))
        lines = asked.texts, asked.sources
        rerank = partial(self._reranked, asked, sources) if self.way_back else None
        best = best_of_each(hypotheses, *lines, self.tokenizer, self.decoding, self.target_language, rerank)
        if demands:
            best = [replace(first, missing=demands.missing(i, first.token_ids)) for i, first in enumerate(best)]
        return best

    def _reranked(
        self, asked: Asked, sources: Sequence[Sequence[int]], hypotheses: list[list[Translation]]
    ) -> list[list[Translation]]:
        if demands := asked.demands:
            hypotheses = [
                [replace(other, missing=demands.missing(i, other.token_ids)) for other in own]
                for i, own in enumerate(hypotheses)
            ]
        return reranked(hypotheses, partial(self._score_back, asked.texts, list(map(len, sources))))

    def _score_back(
        self, texts: Sequence[str], lengths: Sequence[int], lines: Sequence[int], translations: Sequence[str]
    ) -> list[float | None]:
        """How the model scores texts, by number, as translations of translations; None: one is too long.

        `lengths` are those of the texts as sources.
        """
        read, written = self.way_back.ids(translations, [texts[i] for i in lines])
        # Padded to the sources' lengths, they need no fewer slots, for which nothing may be compiled.
        padding = [self.tokenizer.pad_id]
        read = [ids + padding * (lengths[i] - len(ids)) for i, ids in zip(lines, read, strict=True)]
        most = [self._widths_back(lengths[i])[-1] for i in lines]
        fitting = [i for i, slots in enumerate(most) if max(len(read[i]), len(written[i])) <= slots]
        scores: list[float | None] = [None] * len(lines)
        columns = self._with_equal_slots([read[i] for i in fitting], [written[i] for i in fitting])
        results = self.runner.map(self.programs.score_ids, self.weights, columns, is_step=True)
        for i, (score, _) in zip(fitting, results, strict=True):
            scores[i] = float(score)
        return scores

    def _widths_back(self, length: int) -> list[int]:
        """The slots in which sources of so many tokens are scored: few, as each is compiled."""
        slots = self.runner.slots(length)
        return sorted({slots, max(self.runner.slots(min(slots + 1, self.runner.max_slots)), slots)})

    def _shapes_back(self, widths: Iterable[int]) -> list[tuple[int, int]]:
        return [(rows, slots) for slots in widths for rows in self.runner.sizes_of_steps(slots)]

    def _columns(self, sources: list[list[int]], prefixes: list[list[int]] | None = None) -> list[list[list[int]]]:
        if self.first_id is not None:
            prefixes = [[self.first_id, *ids] for ids in prefixes or [[]] * len(sources)]
        return [sources] if prefixes is None else [sources, prefixes]

    def links(self, sources: list[list[int]], targets: list[list[int]]) -> list[tuple[tuple[int, int], ...]]:
        triples = zip(self.attended(sources, targets), sources, targets, strict=True)
        return [align_ids(attended, source, target, self.tokenizer) for attended, source, target in triples]

    def attended(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """`attend_ids` of each pair."""
        return self.runner.map(self.programs.attend_ids, self.weights, self._with_equal_slots(sources, targets))

    def _with_equal_slots(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Sequence[Sequence[int]]]:
        """The columns of pairs, with equal slots for source and target: few shapes, each of which is compiled."""
        padded = []
        for source, target in zip(sources, targets, strict=True):
            padded.append([*target, *[self.tokenizer.pad_id] * (len(source) - len(target))])
        return [sources, padded]

    def engine_of(self, asked: Asked) -> str:
        """Whose search translates parts."""
        return 'jax'

    def most(self, slots: int, engine: str = 'jax') -> int:
        """How many parts in so many slots are translated at once."""
        return self.runner.most(slots)

    def programs_for(
        self, slots: int, rows: int, demands: Sequence[int] = (), *, alignment: bool = False, engine: str = 'jax'
    ) -> list[Program]:
        """What translates `rows` parts of lines in so many slots, with demands of this shape, and aligns them."""
        function = self.translate_ids
        shapes = [(rows, slots)]
        if self.first_id is not None:
            shapes.append((rows, 1))
        if demands:
            *phrases, is_anywhere = demands
            function = self.programs.translate_required
            shapes.append((rows, *phrases))
            if not is_anywhere and self.programs.has_places:
                shapes.append((rows, phrases[0], 2))
        programs = [Program(self.runner, function, self.weights, tuple(shapes))]
        if self.way_back:
            for shape in self._shapes_back(self._widths_back(slots)):
                programs.append(self._program_of_pairs(self.programs.score_ids, *shape))
        if alignment:
            longest = output_slots(self.decoding, slots, max_positions=self.programs.max_positions)
            for width in sorted({self.runner.slots(length) for length in range(slots, max(slots, longest) + 1)}):
                sizes = self.runner.sizes(width)
                if not demands:  # else there may be more lines than rows
                    fewer = [size for size in sizes if size < rows]
                    sizes = sizes[: len(fewer) + 1]
                programs += [self.program_of_links(size, width) for size in sizes]
        return programs

    def program_of_links(self, rows: int, slots: int) -> Program:
        return self._program_of_pairs(self.programs.attend_ids, rows, slots)

    def _program_of_pairs(self, function: Callable[..., Any], rows: int, slots: int) -> Program:
        return Program(self.runner, function, self.weights, ((rows, slots), (rows, slots)))

    def warm_up(self) -> int:
        """Compiles, or loads, every shape in which lines are translated; returns their number."""
        shapes = self.runner.shapes()
        for rows, slots in shapes:
            columns = self._columns([[self.tokenizer.eos_id] * slots])
            self.runner.run(self.translate_ids, self.weights, columns, ([0], rows, slots))
        widths = sorted({slots for _, slots in shapes}) if self.way_back else []
        shapes_back = self._shapes_back(widths)
        for rows, slots in shapes_back:
            ids = [[self.tokenizer.eos_id] * slots]
            self.runner.run(self.programs.score_ids, self.weights, [ids, ids], ([0], rows, slots))
        return len(shapes) + len(shapes_back)


def _rank(found: Translation) -> tuple[Any, ...]:
    return len(found.missing), found.truncated, has_loop(found.token_ids), -found.score
