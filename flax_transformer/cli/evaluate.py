"""`flax-transformer evaluate RUN [RUN ...] [--field value ...]`: `evaluate` of the task that the runs are of."""

from pathlib import Path

from flax_transformer.cli.options import note, parse, positional, progress_bar, read_run_config
from flax_transformer.tasks.find import FIRST_TASK, task_module
from flax_transformer.tasks.translation.evaluate import EvaluateOptions  # noqa: F401  # completion reads it here


def main(argv: list[str]) -> None:
    runs = positional(argv)
    is_file = bool(runs) and Path(runs[0]).is_file()  # word vectors need no run
    task = 'embeddings' if is_file else read_run_config(runs[0]).task if runs else FIRST_TASK  # --help shows the first
    module = task_module(task, 'evaluate')
    default = (lambda _: module.EvaluateOptions()) if is_file else None
    options = parse('evaluate', module.EvaluateOptions, argv, module.DESCRIPTION, default=default, most=None)
    for run in [] if is_file else runs[1:]:
        read_run_config(run, task)  # raises if it is another task's
    module.evaluate(runs, options, note=note, progress_bar=progress_bar)
