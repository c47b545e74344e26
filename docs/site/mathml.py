"""Equations as MathML, which browsers draw themselves: no script, no fonts, no network."""

import html
import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

LOGGER = logging.getLogger(__name__)
TAG = re.compile(r'\\tag\{([^{}]*)\}')  # an equation's number in its source, which docutils does not know


def setup(app: Sphinx) -> dict:
    app.add_html_math_renderer('mathml', (visit_math, None), (visit_block, None))
    return {'parallel_read_safe': True, 'parallel_write_safe': True}


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(converted(node))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    tag = TAG.search(node.astext())
    number = get_node_equation_number(self, node) if node.get('number') else tag and tag[1]
    self.body.append('<div class="math">')  # its anchor is on the element around it
    self.body.append(converted(node, as_block=True))
    if number:
        self.body.append(f'<span class="eqno">({number})</span>')
    self.body.append('</div>\n')
    raise nodes.SkipNode


def converted(node: nodes.math | nodes.math_block, **options: bool) -> str:
    """The MathML of an equation; its source, with a warning, if docutils cannot read it."""
    try:
        return tex2mathml(TAG.sub('', node.astext()), **options)
    except MathError as error:
        LOGGER.warning('equation %r: %s', node.astext(), error, location=node)
        return f'<code>{html.escape(node.astext())}</code>'
