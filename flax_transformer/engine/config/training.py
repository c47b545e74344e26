"""How long training goes on, and what happens on the way."""

from dataclasses import dataclass
from typing import Literal

from flax_transformer.common.checks import check, check_positive, check_rates, check_types


@dataclass(frozen=True)
class TrainingConfig:
    """How long, in what batches, and what happens every so many steps."""

    steps: int = 100_000  # updates in all, those of earlier starts included
    tokens_per_step: int = 25_600  # target slots of a batch over all devices
    label_smoothing: float = 0.1  # section 5.4; spread over the other vocab_size - 1 pieces
    log_every: int = 50  # steps
    evaluate_every: int = 1000  # steps; loss on the validation set, and a few translations to look at
    checkpoint_every: int = 1000  # steps; the last is always saved; the best is found among those evaluated too
    keep_last: int = 2  # newest checkpoints kept, beside the best
    average_last: int = 1  # newest checkpoints whose parameters translate, averaged (section 6.1); 1: the best alone
    sample_translations: int = 3  # validation sentences printed at each evaluation
    max_skipped_steps: int = 10  # steps in a row that are not finite, and so are skipped, before training stops
    keep_best: int = 1  # best checkpoints kept, beside the newest
    best_by: Literal['loss', 'bleu'] = 'loss'  # which score of the validation sets says what is best
    evaluate_bleu: int | None = 0  # validation sentences translated at each evaluation, for BLEU; None: all; 0: none
    patience: int = 0  # evaluations in a row that are no better than the best before training stops; 0: it goes on
    r_drop_alpha: float = 0.0  # weight of R-Drop (Liang et al. 2021): two passes whose predictions are to agree; 0: off
    on_full_disk: Literal['stop', 'go_on'] = 'stop'  # where a checkpoint finds no room; go_on: try at the next save
    smoothing_steps: int = 100  # that the running means of loss and gradient norm look back
    spike_deviations: float = 8.0  # a step so many standard deviations above them is logged with its sentences; 0: none
    draw_attention: bool = True  # at evaluations, of the first sample, into TensorBoard; needs matplotlib
    profile_from: int = 0  # a trace by jax.profiler is written from this step on; 0: none
    profile_steps: int = 3  # so many steps long

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, 'steps', 'tokens_per_step', 'log_every', 'evaluate_every', 'checkpoint_every', 'keep_last')
        check_positive(self, 'max_skipped_steps', 'keep_best', 'smoothing_steps', 'profile_steps')
        check_rates(self, 'label_smoothing')
        check(self.sample_translations >= 0, f'sample_translations={self.sample_translations}: expected at least 0')
        check(
            1 <= self.average_last <= self.keep_last,
            f'average_last={self.average_last}: expected 1 to keep_last={self.keep_last}, the checkpoints there are',
        )
        check(
            self.evaluate_bleu is None or self.evaluate_bleu >= 0,
            f'evaluate_bleu={self.evaluate_bleu}: expected at least 0, or None',
        )
        check(
            self.best_by != 'bleu' or self.evaluate_bleu != 0,
            "best_by='bleu': nothing is translated with evaluate_bleu=0; expected a number of sentences, or None",
        )
        for name in ('patience', 'r_drop_alpha', 'spike_deviations', 'profile_from'):
            check(getattr(self, name) >= 0, f'{name}={getattr(self, name)}: expected at least 0')
