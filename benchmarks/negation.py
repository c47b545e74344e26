"""How many of a hundred pairs of sentences, plain and negated, classifiers get right.

`python benchmarks/negation.py RUN [RUN ...] [--negative neg] [--positive pos]` prints a line of JSON for each run.

`--negative` and `--positive` are the names of blame and praise in the runs' labels.
"""

import argparse
import json

from flax_transformer import Classifier
from flax_transformer.tasks.classification.opinions import NEGATIVE, POSITIVE, score_pairs
from flax_transformer.tasks.classification.run import Run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('runs', nargs='+')
    parser.add_argument('--negative', default=NEGATIVE)
    parser.add_argument('--positive', default=POSITIVE)
    options = parser.parse_args()
    for run in options.runs:
        classifier = Classifier.from_run(run)
        if not {options.negative, options.positive} <= {*classifier.labels}:
            parser.error(f'{run} has the labels {", ".join(classifier.labels)}; give --negative and --positive')
        found = score_pairs(
            lambda texts, classifier=classifier: [each.label for each in classifier(texts)],
            negative=options.negative,
            positive=options.positive,
        )
        encoder = Run(run.partition('@')[0]).read_config().model.encoder
        print(json.dumps({'run': run, 'encoder': encoder, **found._asdict()}))


if __name__ == '__main__':
    main()
