"""What `flax-transformer evaluate RUN [--test FILE]` does for classification."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from flax_transformer.common.quiet import Say, aligned
from flax_transformer.engine.task_value import Command, EvaluateOptions
from flax_transformer.tasks.evaluation import RESAMPLES, check_examples, only_run, print_scores, scored_set

from .config import ClassificationDataConfig
from .metrics import BINS, Scores, scores
from .reading import Examples, read_examples, test_files

if TYPE_CHECKING:
    from .classifier import Classification, Classifier


_MOST_LABELS = 12  # a printed confusion matrix has no more; the most frequent confusions are listed instead
_WIDTH = 12  # characters of a label there


@dataclass(frozen=True)
class Options(EvaluateOptions):
    test: str | None = None  # labeled texts to score on, in any form of data.test; a path from the working directory
    examples: int = 5  # texts to show, of those that the classifier got most wrong
    data: ClassificationDataConfig = field(default_factory=ClassificationDataConfig)


def evaluate(runs: list[str], options: Options, *, note: Say, progress_bar: Callable[..., Any]) -> None:
    run = only_run(runs, 'classifiers')
    check_examples(options.examples)
    name, data = scored_set(run, options.test, options.data, test_files, trust=options.trust_data)
    examples = read_examples(name, data)

    from .classifier import Classifier

    classifier = Classifier.from_run(run, step=options.step)
    with progress_bar(len(examples.texts), 'texts') as bar:
        result, given = evaluate_classifier(classifier, examples, progress=bar.update)
    wrong = _most_wrong(given, examples, options.examples)
    flags = {flag: sum(flag in text.flags for text in given) for flag in ('empty', 'truncated', 'unknown')}
    everything = {'set': name, **asdict(result), 'flags': flags, 'most_wrong': wrong}
    print_scores(everything, _lines(name, result, flags, wrong), as_json=options.json)


def evaluate_classifier(
    classifier: 'Classifier', examples: Examples, *, progress: Callable[[int], None] | None = None
) -> 'tuple[Scores, list[Classification]]':
    """The scores on labeled texts, and what the classifier says of each; an unknown label counts as wrong."""
    given = classifier(examples.texts, progress=progress)
    names = tuple(dict.fromkeys((*classifier.labels, *sorted(set(examples.labels)))))
    numbers = np.array([names.index(label) for label in examples.labels])
    probabilities = np.array([[*text.probabilities.values()] for text in given])
    return scores(probabilities, numbers, names), given


def _most_wrong(given: 'Sequence[Classification]', examples: Examples, count: int) -> list[dict[str, Any]]:
    """The wrong answers whose true label got the least probability, the least first."""
    wrong = [i for i, label in enumerate(examples.labels) if given[i].label != label]
    wrong.sort(key=lambda i: given[i].probabilities.get(examples.labels[i], 0.0))
    return [
        {
            'place': examples.places[i],
            'text': examples.texts[i],
            'label': examples.labels[i],
            'given': given[i].label,
            'probability': given[i].probability,
        }
        for i in wrong[:count]
    ]


def _lines(name: str, result: Scores, flags: dict[str, int], wrong: list[dict[str, Any]]) -> list[str]:
    lines = []
    for text in wrong:
        lines.append(f'{text["place"]}: {text["label"]}, got {text["given"]} with {text["probability"]:.3f}')
        lines.append(f'  {text["text"]}')
    lines += [
        *([''] if wrong else []),
        f'{name}: {result.num_texts:,} texts',
        f'accuracy           {result.accuracy:.2%}  (95 % interval {result.accuracy_low:.2%} to '
        f'{result.accuracy_high:.2%}, bootstrap of {RESAMPLES:,})',
        f'macro-F1           {result.macro_f1:.2%}',
        f'calibration error  {result.calibration_error:.2%}  ({BINS} bins)',
        f'negative log-likelihood {result.nll:.4f} nats a text',
        '',
        *_confusion(result),
    ]
    texts = {
        'truncated': "cut at the run's data.max_length",
        'empty': 'without a token, given the shares of the labels in the training data',
        'unknown': 'without a word of the training data',
    }
    return lines + [f'{text}: {flags[flag]:,}' for flag, text in texts.items() if flags[flag]]


def _confusion(result: Scores) -> list[str]:
    if len(result.labels) > _MOST_LABELS:
        pairs = [
            (-count, true, given)
            for true, row in zip(result.labels, result.confusion, strict=True)
            for given, count in zip(result.labels, row, strict=True)
            if true != given and count
        ]
        shown = [f'{-count:7,}  {true} as {given}' for count, true, given in sorted(pairs)[:10]]
        return ['most often taken for another:', *(shown or ['  none'])]

    names = [label if len(label) <= _WIDTH else label[: _WIDTH - 1] + '…' for label in result.labels]
    rows = [[name, *map('{:,}'.format, row)] for name, row in zip(names, result.confusion, strict=True)]
    return [*aligned([['true', *names], *rows]), '(rows: the true label; columns: the label given)']


EVALUATE = Command(
    Options,
    evaluate,
    """Score a trained classifier: accuracy with its interval, macro-F1, calibration error, confusion matrix,
and the texts that it got most wrong. Without --test the test set of its config is used.""",
)
