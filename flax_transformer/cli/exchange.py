"""The commands `export`, `export-huggingface` and `import-huggingface`: models for other programs, and theirs."""

import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import tyro

from flax_transformer.common.errors import UserError
from flax_transformer.decoding.config import DecodingConfig

from .card import CardOptions, card_of
from .options import OfCheckpoint, note, parse, print_next, read_config


@dataclass(frozen=True)
class ExportOptions(OfCheckpoint):
    """Write a trained model as a FOLDER that JAX alone can run, or ONNX Runtime, or a web browser.

    For JAX it holds encoder and search as StableHLO for any batch and length, the tokenizer, and load.py, which
    translates with them.
    """

    folder: tyro.conf.Positional[Path] = tyro.MISSING  # the folder to make
    # onnx: the encoder and one step of the decoder, without a search; web: a site that translates in the browser
    format: Literal['jax', 'onnx', 'web'] = 'jax'
    history: tuple[Path, str] | None = None  # web: show a RUN's checkpoints learning to translate a LINE
    weights: Literal['beside', 'inside'] = 'beside'  # beside: in a file of their own; inside: in the program
    dtype: Literal['auto', 'float32', 'bfloat16'] = 'auto'  # the computation's; auto: the model's, else float32
    platforms: tuple[Literal['cpu', 'cuda', 'rocm', 'tpu'], ...] = ('cpu', 'cuda', 'tpu')  # platforms that can run it
    phrases: bool = False  # the program also takes phrases that translations must contain, and is slower
    decoding: DecodingConfig = field(default_factory=DecodingConfig)  # the search


@dataclass(frozen=True)
class ExportHuggingfaceOptions(OfCheckpoint):
    """Write a trained model as a FOLDER in Hugging Face's format of its family (Marian for most).

    The package transformers loads it. Without FOLDER, only say whether the format can hold the model of a RUN, or of a
    CONFIG before training.
    """

    folder: tyro.conf.Positional[Path | None] = None  # the folder to make
    decoding: DecodingConfig = field(default_factory=DecodingConfig)  # what generation_config.json will say


@dataclass(frozen=True)
class ImportHuggingfaceOptions:
    """Make a run directory, RUN, from a model in a local FOLDER as Hugging Face's save_pretrained writes it.

    The model is a Marian (OPUS-MT and others), NLLB-200, M2M-100, mBART-50, T5, mT5 or MADLAD-400. Nothing is
    downloaded.
    """

    run: tyro.conf.Positional[Path | None] = None  # the run directory to make
    source_language: str | None = None  # translated from, if no other is asked for; None: as FOLDER says, or English
    target_language: str | None = None  # translated into; needed by each command if FOLDER names none either


def export(argv: list[str]) -> None:
    options = parse('export', ExportOptions, argv, task='translation')
    from flax_transformer.interop.stablehlo import export_run, refuse_existing
    from flax_transformer.tasks.translation.inference.translator import Translator

    of_programs = ('weights', 'dtype', 'platforms', 'phrases')
    for name in of_programs:
        if options.format != 'jax' and getattr(options, name) != getattr(ExportOptions, name):
            raise UserError(f'--{name} is an option of --format jax; leave it out')
    is_site = options.format == 'web'
    if options.history and not is_site:
        raise UserError('--history is for --format web')
    refuse_existing(options.folder)  # before anything is computed
    decoding = asdict(options.decoding)
    if is_site:
        decoding['weights'] = 'int8'
    elif decoding['weights'] == 'auto':  # what this machine would choose is not for others
        decoding['weights'] = 'float32'
    translator = Translator.from_run(argv[0], step=options.step, **decoding)
    if options.format != 'jax':
        from flax_transformer.interop.learning_history import learning_history
        from flax_transformer.interop.onnx_export import RUNTIME, export_onnx

        history = learning_history(*options.history) if options.history else None
        export_onnx(translator, options.folder, runtime=RUNTIME if is_site else None, history=history)
    else:
        dtype = None if options.dtype == 'auto' else options.dtype
        fields = {name: getattr(options, name) for name in of_programs if name != 'dtype'}
        export_run(translator, options.folder, dtype=dtype, **fields)
    for file in sorted(options.folder.iterdir()):
        print(f'{file.stat().st_size:>12,}  {file}')
    if is_site:
        print(f'  python -m http.server --directory {options.folder}  # then open http://localhost:8000')
    if options.format != 'jax':
        return
    print('It needs only jax, numpy, sentencepiece and flatbuffers:')
    print(f'  python {options.folder / "load.py"} < lines > translations')


def export_huggingface(argv: list[str]) -> None:
    def default(name: str) -> ExportHuggingfaceOptions:
        return ExportHuggingfaceOptions(decoding=read_config(name, 'translation').decoding)

    options = parse('export-huggingface', ExportHuggingfaceOptions, argv, default=default)
    config = read_config(argv[0], 'translation')

    from flax_transformer.huggingface.folder import check_export
    from flax_transformer.huggingface.settings import family_of_model, notes_on

    check_export(config.model, options.decoding)
    if options.folder is None:
        print(f"Hugging Face's {family_of_model(config.model).name} format can hold the model of {argv[0]}")
        notes = notes_on(config.model, options.decoding)
    else:
        from flax_transformer.interop import huggingface_runs

        notes = huggingface_runs.export_huggingface(argv[0], options.folder, options.decoding, step=options.step)
        card = options.folder / 'README.md'
        if not card.exists():
            card.write_text(card_of(argv[0], CardOptions(step=options.step)), encoding='utf-8')
        print(f'The model is in {options.folder}. For example:')
        print(f'  ct2-transformers-converter --model {options.folder} --output_dir {options.folder}.ct2')
    for line in notes:
        note(line)


def import_huggingface(argv: list[str]) -> None:
    default = ImportHuggingfaceOptions()
    options = parse('import-huggingface', ImportHuggingfaceOptions, argv, first='FOLDER', default=default)
    if options.run is None:
        raise UserError(f'import-huggingface: got {argv[0]} alone, expected FOLDER and RUN')

    from flax_transformer.interop import huggingface_runs

    languages = {name: getattr(options, name) for name in ('source_language', 'target_language')}
    run = huggingface_runs.import_huggingface(argv[0], options.run, **languages)
    if run.read_config().data.language_tags:
        note("NLLB-200 is licensed CC BY-NC 4.0, for non-commercial use only; for others see their authors' terms")
    quoted = shlex.quote(str(run.path))
    print_next(
        f'The run is in {run.path}',
        f'flax-transformer translate {quoted} < lines > translations',
        f'flax-transformer train CONFIG --init-from {quoted} --workdir ANOTHER',
    )
