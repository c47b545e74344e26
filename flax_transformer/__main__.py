"""`python -m flax_transformer`: the same as the command `flax-transformer`."""

from flax_transformer.cli import launch

if __name__ == '__main__':
    launch()
