"""`flax-transformer configs [NAME]`: the configs that come with the package."""

from flax_transformer.cli.help import wants_help
from flax_transformer.common.config_files import shipped_configs
from flax_transformer.common.errors import UserError, nearest

DESCRIPTION = """usage: flax-transformer configs [NAME]

Print a config that comes with the package, to begin your own:
  flax-transformer configs multi30k_en_de > my_config.py
Without a NAME, list all."""


def main(argv: list[str]) -> None:
    shipped, name = shipped_configs(), ' '.join(argv)
    if wants_help(argv):
        print(DESCRIPTION)
    elif name and name not in shipped:
        raise UserError(f'configs: got {name}, expected one of {", ".join(shipped)}.{nearest(name, shipped)}')
    elif name:
        print(shipped[name].read_text('utf-8'), end='')
    else:
        print('\n'.join(shipped))
