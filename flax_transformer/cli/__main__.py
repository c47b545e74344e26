"""`python -m flax_transformer.cli`: the same as the command `flax-transformer`."""

from . import launch

if __name__ == '__main__':
    launch()
