"""How Sphinx builds the site: `make docs`.

The source folder is the repository, so that links between the documents are the same files here and on a code host.
Nothing is downloaded and no notebook is run.
"""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
PROJECT = tomllib.loads((ROOT / 'pyproject.toml').read_text(encoding='utf-8'))['project']
REPOSITORY = PROJECT.get('urls', {}).get('Repository', '').rstrip('/')

project = 'flax_transformer'
author = 'the flax_transformer authors'
extensions = ['myst_nb', 'sphinx.ext.autodoc', 'sphinx.ext.napoleon', 'sphinx.ext.viewcode', 'mathml', 'generated']
root_doc = 'docs/index'
include_patterns = [
    '*.md',
    'docs/*.md',
    'docs/**/*.md',
    'benchmarks/README.md',
    'flax_transformer/models/*/README.md',
    'notebooks/*.ipynb',
]
exclude_patterns = ['**/.*', 'build/**', 'runs/**', 'data/**']

# Markdown: the anchors of a code host, and equations between dollars.
myst_heading_anchors = 4
myst_enable_extensions = ['deflist', 'dollarmath']
suppress_warnings = ['myst.header']  # a changelog repeats its headings
nb_execution_mode = 'off'  # notebooks as they are stored

smartquotes = False  # they would join the dashes of options

# Docstrings: `name` is code, and the comment at a field of a dataclass is its text.
default_role = 'code'
autoclass_content = 'both'  # the class and its constructor
autodoc_default_options = {'members': True, 'special-members': '__call__'}
autodoc_member_order = 'bysource'
autodoc_typehints_format = 'short'
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 110
add_module_names = False

html_theme = 'furo'
html_title = 'flax_transformer'
html_static_path = ['static']
html_css_files = ['site.css']
html_math_renderer = 'mathml'
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {'navigation_with_keys': True}
if REPOSITORY:
    for each, verb in (('view', 'blob'), ('edit', 'edit')):
        html_theme_options[f'source_{each}_link'] = f'{REPOSITORY}/{verb}/main/{{filename}}'


def setup(app) -> None:
    """Leads from the folder that the site is in to its front page."""

    def redirect(app, error: Exception | None) -> None:
        if error is None and app.builder.format == 'html':
            to = f'<meta http-equiv="refresh" content="0; url={root_doc}.html">'
            page = f'<!doctype html><title>{project}</title>{to}<a href="{root_doc}.html">{project}</a>\n'
            (Path(app.outdir) / 'index.html').write_text(page, encoding='utf-8')

    app.connect('build-finished', redirect)
