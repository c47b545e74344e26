"""`python -m flax_transformer.cli`: the same as the command `flax-transformer`."""

import sys

from flax_transformer.cli import main

if __name__ == '__main__':
    sys.exit(main())
