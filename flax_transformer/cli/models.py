"""`flax-transformer models [NAME]`: the models that come with the package."""

from flax_transformer.engine.runs.shipped import shipped_models

from .configs import list_or_print

DESCRIPTION = """usage: flax-transformer models [NAME]

List the models that come with the package. Their names stand where a command
wants a run:
  flax-transformer translate everyday < lines
With a NAME, print its card: data, scores, limits and license."""


def main(argv: list[str]) -> None:
    cards = {name: folder / 'README.md' for name, folder in shipped_models().items()}
    title_of = lambda name: cards[name].read_text('utf-8').partition('\n')[0].removeprefix('# ')
    list_or_print('models', DESCRIPTION, argv, cards, title_of)
