r"""Formulas as MathML, set when the book is built: no page runs a script for them.

Browsers draw MathML by themselves (Firefox and Safari for long, Chrome since 109). The font is
part of the site: see ``_static/math-font.txt``.
"""

import re
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.errors import ExtensionError
from sphinx.transforms.post_transforms import SphinxPostTransform

# A thin space stands on both sides of ln, exp and the like, where a number or a letter follows.
AFTER = re.compile(r"(<mi>[a-z]{2,}</mi>|<msub>\s*<mi>[a-z]{2,}</mi>.*?</msub>)"
                   r"(?=\s*<(?:mi|mn|msub|msup|msqrt|mfrac|mrow)\b)")
BEFORE = re.compile(r"(</mn>|</mi>|</msub>)(?=\s*(?:<msub>\s*)?<mi>[a-z]{2,}</mi>)")
SPACE = r'\1<mspace width="0.17em"></mspace>'
# Bars stand close and keep their height: without a side of their own they would have both spaces.
BAR = re.compile(r'<mo(?: stretchy="false")?>(&#x02016;|&#x0007C;)</mo>')


def mathml(latex, display):
    r"""Return a formula as MathML.

    Args:
        latex (str): the formula, without its dollar signs.
        display (str): "inline" or "block".

    Returns:
        str: a ``<math>`` element; what screen readers say comes from its parts.

    Raises:
        ExtensionError: a command that latex2mathml does not know would stand there as text.
    """
    markup = convert(latex.strip(), display=display)
    left = [text for text in ElementTree.fromstring(markup).itertext() if "\\" in text]
    if left:
        raise ExtensionError(f"no MathML for {left[0]!r} in the formula {latex!r}")
    markup = BAR.sub(r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>', markup)
    markup = AFTER.sub(SPACE, BEFORE.sub(SPACE, markup))
    return markup.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")


class JoinSigns(SphinxPostTransform):
    """No line ends between a formula and a bracket before it, or a comma or full stop after it."""

    default_priority = 400

    def run(self):
        """Put each formula into one span with these signs."""
        for formula in list(self.document.findall(nodes.math)):
            line, at = formula.parent, formula.parent.index(formula)
            before, after = ("".join(part for part in line[max(side, 0):side + 1]
                                     if isinstance(part, nodes.Text)) for side in (at - 1, at + 1))
            opening, closing = before[-1:] in tuple("(“"), after[:1] in tuple(",.;:!?)”")
            if not opening and not closing:
                continue
            joined = nodes.inline("", "", classes=["joined"])
            if opening:
                line[at - 1] = nodes.Text(before[:-1])
                joined += nodes.Text(before[-1])
            line[at] = joined
            joined += formula
            if closing:
                line[at + 1] = nodes.Text(after[1:])
                joined += nodes.Text(after[0])


def inline(translator, node):
    """Write a formula in a line of text."""
    translator.body.append(f'<span class="math">{mathml(node.astext(), "inline")}</span>')
    raise nodes.SkipNode


def block(translator, node):
    """Write a formula on a line of its own."""
    translator.body.append(translator.starttag(node, "div", CLASS="math")
                           + mathml(node.astext(), "block") + "</div>\n")
    raise nodes.SkipNode


def setup(app):
    """Offer the renderer as ``html_math_renderer: mathml``."""
    app.add_post_transform(JoinSigns)
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
