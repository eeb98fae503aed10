"""One HTML page that needs nothing else: the template, the style, the script and the data in one file.

The page sets a policy for itself (Content Security Policy Level 3, https://www.w3.org/TR/CSP3/) under which nothing runs but the one script whose hash it
names, and nothing is loaded from anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from memlens.text import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The modules of the report's script, each after those that it imports from.
MODULES = (
    *("format", "data", "pyramid", "axis", "levels", "ticks", "dom", "canvas", "boxes", "grid", "zoom", "track", "app"),
    *("timeline", "colors", "lives", "lifetimes", "life", "moment", "memory_map", "flame", "tables", "diff", "main"),
)

#: A module's imports, one a line, and what marks its exports: in one script neither is needed.
_IMPORT = re.compile(r'^import [^;]+ from "\./[a-z_]+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const)\b)", re.MULTILINE)
#: What could end a script or begin a comment in HTML, in JSON text.
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def page(title: str, *, sentences: Sequence[str], tone: str, words: str, data: dict[str, Any] | None = None) -> str:
    """A page as text.

    Args:
        title: Its title; text from a log or of a path is escaped here.
        sentences: The verdict, likewise.
        tone: ``good``, ``bad`` or ``plain`` (:class:`memlens.text.Answer`).
        words: What is said below the pictures, as HTML without scripts and styles (:mod:`memlens.reports.html`).
        data: What the script shows; without it the page has none.
    """
    style = _text("viewer.css")
    script = script_of(MODULES) if data is not None else ""
    # A missing name is an error, and all text that is no HTML of ours is escaped.
    loader = PackageLoader("memlens.drawing", "viewer")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    text: str = environment.get_template("page.html.j2").render(
        title=title,
        # A name in a verdict may turn or hide what follows it.
        sentences=[visible(sentence) for sentence in sentences],
        tone=tone,
        # Styles on elements are refused by the policy, which knows those of the style sheet alone.
        words=re.sub(r' style="text-align:(right|left|center)"', r' class="\1"', words),
        style=style,
        script=script,
        data="" if data is None else _embedded(data),
        policy=_policy(style, script),
    )
    return text


def script_of(names: Sequence[str]) -> str:
    """Modules as one script: their texts in order, without the imports and exports between them.

    It is ASCII, so that its hash stays what it is where the page is served in another encoding.
    """
    script = "".join(_EXPORT.sub("", _IMPORT.sub("", _text(f"{name}.js"))) for name in names)
    return script.encode("ascii", "backslashreplace").decode()


def _embedded(data: dict[str, Any]) -> str:
    """JSON that may stand in a script element."""
    text = msgspec.json.encode(data).decode()
    return re.sub("[<>&\u2028\u2029]", lambda found: _UNSAFE[found[0]], text)


def _policy(style: str, script: str) -> str:
    scripts = _hash(script) if script else "'none'"
    return f"default-src 'none'; script-src {scripts}; style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _text(name: str) -> str:
    return resources.files("memlens.drawing").joinpath("viewer", name).read_text("utf-8")
