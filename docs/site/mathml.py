"""Equations as MathML, which browsers draw themselves: no script, no fonts, no network."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator


def setup(app: Sphinx) -> dict:
    app.add_html_math_renderer('mathml', (visit_math, None), (visit_block, None))
    return {'parallel_read_safe': True, 'parallel_write_safe': True}


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append('<div class="math">')  # its anchor is on the element around it
    self.body.append(tex2mathml(node.astext(), as_block=True))
    if node.get('number'):
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})</span>')
    self.body.append('</div>\n')
    raise nodes.SkipNode
