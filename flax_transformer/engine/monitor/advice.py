"""What to change where training plainly underfits or overfits, by its metrics."""

from operator import itemgetter
from typing import Any

from flax_transformer.engine.config import TaskConfig

from .progress import rank

FALLING = 0.05  # relative fall of the validation loss in the last fifth that counts as underfitting
RISEN = 0.03  # its relative rise above its minimum that counts as overfitting
EARLY = 0.7  # a rise is reported only if training.best_by peaked before this share of the steps
WRONG = 0.1  # error rate above which to advise


def advice(records: list[dict[str, Any]], config: TaskConfig) -> list[str]:
    """A sentence for each thing to change; [] where metrics name none."""
    best_by = config.training.best_by
    length = f'--training.{config.training.length_unit}'
    dropout = 'more dropout (--model.dropout-rate), ' if hasattr(getattr(config, 'model', None), 'dropout_rate') else ''
    validations = [record for record in records if record['kind'] == 'validation']
    losses = [(record['step'], record['loss']) for record in validations if 'loss' in record]
    train_losses = [record['loss'] for record in records if record['kind'] == 'train' and 'loss' in record]

    lines = []
    if len(validations) > 1 and not validations[0]['step']:  # training went on from another run
        before = validations[0]
        best = max(validations, key=lambda record: rank(record[best_by], best_by))
        names = [name for name in before if name.partition('/')[0] == best_by]
        changes = (f'{name} {before[name]:.4g} -> {best[name]:.4g}' for name in names)
        lines.append(f'before and after (step {best["step"]}): {", ".join(changes)}')
    if len(losses) > 1 and train_losses:
        last_train = train_losses[-1]
        step, best = min(losses, key=itemgetter(1))
        end, last = losses[-1]
        scores = [(rank(record[best_by], best_by), record['step']) for record in validations if best_by in record]
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

    scores_now = validations[-1] if validations else {}
    errors = scores_now.get('word_error_rate', 0.0)
    left_out = scores_now.get('deletion_rate', 0.0)
    if errors > WRONG and left_out > errors / 2:
        lines.append(
            f'{left_out:.0%} of the words are left out, of {errors:.0%} that are wrong: the model says too little yet; '
            'smaller batches (--training.batch-size), a smaller model or more steps would help'
        )
    return lines
