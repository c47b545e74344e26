"""TensorFlow Datasets without TensorFlow: translation builders, prepared as array_record."""

from pathlib import Path
from typing import Any

from flax_transformer.config import DataConfig
from flax_transformer.data.pairs import Pairs
from flax_transformer.errors import UserError, nearest


def read_tfds(name: str, config: DataConfig, root: Path) -> Pairs:
    """The pairs of `tfds:BUILDER/CONFIG:SPLIT`, prepared below `root`/tensorflow_datasets.

    Raises UserError at once, with the remedy, where it is not prepared: asking TFDS would retry a download first.
    """
    _, builder_name, split = (*name.split(':', maxsplit=2), '')[:3]
    if not split or ':' in split.partition('[')[0]:
        raise UserError(f'corpus {name!r}: expected tfds:NAME/CONFIG:SPLIT')
    folder = root / 'tensorflow_datasets'

    import tensorflow_datasets as tfds
    import tensorflow_datasets.translate

    _check_is_known(name, builder_name, tfds)
    builder = tfds.builder(builder_name, data_dir=folder, file_format='array_record')
    if split.partition('[')[0] not in builder.info.splits:
        prepared = ', '.join(builder.info.splits) or 'nothing'
        raise UserError(
            f'corpus {name!r}: split {split!r} is not prepared below {folder} (prepared: {prepared}). '
            'Prepare it once:\n'
            f'  python -c "import tensorflow_datasets as tfds, tensorflow_datasets.translate; tfds.builder('
            f"'{builder_name}', data_dir='{folder}', file_format='array_record').download_and_prepare()\""
        )
    languages = (config.source_language, config.target_language)
    sides: tuple[list[str], list[str]] = ([], [])
    for row in builder.as_data_source(split):
        for side, language in zip(sides, languages, strict=True):
            if language not in row:
                raise UserError(f'corpus {name!r} has no language {language!r}; it has {", ".join(sorted(row))}')
            text = row[language]
            side.append(text.decode('utf-8') if isinstance(text, bytes) else str(text))
    return Pairs(*sides)


def _check_is_known(name: str, builder_name: str, tfds: Any) -> None:
    """Asking tfds.builder for what it does not know makes it import TensorFlow."""
    base, _, config_name = builder_name.partition('/')
    known = tfds.list_builders(with_community_datasets=False)
    if base not in known:
        raise UserError(f'corpus {name!r}: TensorFlow Datasets has no such builder.{nearest(base, known)}')
    configs = list(tfds.builder_cls(base).builder_configs)
    if config_name and config_name not in configs:
        hint = nearest(config_name, configs)
        raise UserError(f'corpus {name!r}: {base} has no config {config_name!r}, only {", ".join(configs)}.{hint}')
