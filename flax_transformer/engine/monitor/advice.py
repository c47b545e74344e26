"""What to change where training plainly underfits or overfits, by its metrics."""

from typing import Any

from flax_transformer.engine.config import TaskConfig
from flax_transformer.engine.monitor.progress import rank

FALLING = 0.05  # relative fall of the validation loss in the last fifth of training that counts as underfitting
RISEN = 0.03  # its relative rise above its minimum that counts as overfitting
EARLY = 0.7  # overfitting is reported only if training.best_by peaked before this share of the steps
WRONG = 0.1  # error rate above which to advise


def advice(records: list[dict[str, Any]], config: TaskConfig) -> list[str]:
    """A sentence for each thing to change; [] where metrics name none."""
    best_by, length = config.training.best_by, f'--training.{config.training.length_unit}'
    dropout = 'more dropout (--model.dropout-rate), ' if hasattr(getattr(config, 'model', None), 'dropout_rate') else ''
    found = [each for each in records if each['kind'] == 'validation']
    losses = [(each['step'], each['loss']) for each in found if 'loss' in each]
    last_train = next((each['loss'] for each in reversed(records) if each['kind'] == 'train' and 'loss' in each), None)
    lines = []
    if len(losses) > 1 and last_train is not None:
        (step, best), (end, last) = min(losses, key=lambda each: each[1]), losses[-1]
        scores = [(rank(each[best_by], best_by), each['step']) for each in found if best_by in each]
        before = min((loss for at, loss in losses if 0.6 * end <= at <= 0.8 * end), default=0.0)
        if last > (1 + RISEN) * best and max(scores, default=(0, end))[1] <= EARLY * end:
            lines.append(
                f'the validation loss was best at step {step:,} ({best:.3g}) and is {last:.3g} now, that of training '
                f'{last_train:.3g}: it overfits; {dropout}more data or a smaller model would help, or a '
                f'training {step / end:.0%} as long ({length})'
            )
        elif last < (1 - FALLING) * before and end >= config.training.steps:  # not stopped by patience
            lines.append(
                f'the validation loss still fell from {before:.3g} to {last:.3g} in the last fifth of training: it '
                f'underfits; train anew for twice as long ({length})'
            )
    errors, left_out = (found[-1].get(name, 0.0) if found else 0.0 for name in ('word_error_rate', 'deletion_rate'))
    if errors > WRONG and left_out > errors / 2:
        lines.append(
            f'{left_out:.0%} of the words are left out, of {errors:.0%} that are wrong: the model says too little yet; '
            'smaller batches (--training.batch-size), a smaller model or more steps would help'
        )
    return lines
