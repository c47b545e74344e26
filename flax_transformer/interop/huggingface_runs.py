"""A run directory from a folder of Hugging Face's Marian format, and such a folder from a run."""

from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.common.trees import refuse_non_finite
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.huggingface.folder import Marian, as_marian, check_export, read_marian, write_marian
from flax_transformer.huggingface.settings import longest_of, notes_on
from flax_transformer.huggingface.tokenizer import MarianTokenizer
from flax_transformer.tasks.translation.config import Config
from flax_transformer.tasks.translation.loading import load_run
from flax_transformer.tasks.translation.run import Run
from flax_transformer.text.tokenizer import TokenizerConfig


def import_marian(folder: Path | str, run: Path | str) -> Run:
    """Makes a run directory, at step 0, from a folder's model. Raises UserError if `run` already exists."""
    marian, run = read_marian(folder), Run(run)
    if run.exists():
        raise UserError(f'{run.path} is a run directory already; give another, or remove it')
    settings = marian.tokenizer.settings
    languages = {f'{side}_language': str(settings.get(f'{side}_lang') or side) for side in ('source', 'target')}
    run.open(
        Config(
            model=marian.config,
            tokenizer=TokenizerConfig(unk_id=marian.tokenizer.unk_id),
            data=DataConfig(**languages, train=f'marian:{Path(folder).name}', validation='', test=''),
            decoding=marian.decoding,
        )
    )
    run.write_tokenizer(marian.tokenizer)
    checkpoints = Checkpoints(run.checkpoints)
    checkpoints.save_params(marian.params)
    checkpoints.close()
    return run


def export_marian(
    run: Path | str, folder: Path | str, decoding: DecodingConfig, *, step: int | None = None
) -> list[str]:
    """Writes a run's model as a folder that Hugging Face loads, with this search; returns in words what differs there.

    `run` and `step` name a checkpoint as in `load_run`. Raises UserError with everything that the format cannot hold,
    and if the folder is not empty.
    """
    config, params, tokenizer = load_run(run, step=step)
    check_export(config.model, decoding)
    refuse_non_finite(params)
    if not isinstance(tokenizer, MarianTokenizer):
        languages = config.data.source_language, config.data.target_language
        tokenizer = as_marian(tokenizer, languages, longest_of(config.model, decoding))
    write_marian(folder, Marian(config.model, params, tokenizer, decoding))
    return notes_on(config.model, decoding)
