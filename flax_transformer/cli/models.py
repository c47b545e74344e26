"""`flax-transformer models [NAME]`: the models that come with the package."""

from flax_transformer.cli.help import wants_help
from flax_transformer.common.errors import UserError, nearest
from flax_transformer.engine.runs.shipped import shipped_models

CARD = 'README.md'
DESCRIPTION = """usage: flax-transformer models [NAME]

List the models that come with the package. Their names stand where a command
wants a run:
  flax-transformer translate everyday < lines
With a NAME, print its card: data, scores, limits and licence."""


def main(argv: list[str]) -> None:
    shipped, name = shipped_models(), ' '.join(argv)
    if wants_help(argv):
        print(DESCRIPTION)
    elif name and name not in shipped:
        raise UserError(f'models: got {name}, expected one of {", ".join(shipped)}.{nearest(name, shipped)}')
    elif name:
        print((shipped[name] / CARD).read_text('utf-8'), end='')
    else:
        for each, folder in shipped.items():
            title = (folder / CARD).read_text('utf-8').partition('\n')[0]
            print(f'{each}: {title.removeprefix(f"# {each}: ")}')
