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
import numpy as np

from memlens.analyzers.groups import owner_labels, owners_of
from memlens.columns import distinct
from memlens.drawing.packing import pack_json, packed
from memlens.text import innermost, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memlens.columns import Ints
    from memlens.events import EventLog

#: The modules of the report's script, each after those that it imports from.
MODULES = str.split(
    "format data axis levels stacks ticks dom canvas boxes grid zoom track layout lives app "
    "paint life moment picture devices details address memory_map flame tables diff main"
)

#: A module's imports, one a line, and what marks its exports: in one script neither is needed.
_IMPORT = re.compile(r'^import [^;]+ from "\./[a-z_]+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const)\b)", re.MULTILINE)
#: What only readers of the modules need.
_COMMENT = re.compile(r"/\*\*(?:(?!\*/)[\s\S])*\*/ ?|^\s*//.*\n", re.MULTILINE)
#: What could end a script or begin a comment in HTML, in JSON text.
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def page(title: str, *, sentences: Sequence[str], tone: str, words: str, data: dict[str, Any] | None = None) -> str:
    """A page as text.

    Args:
        title: Its title; text from a log or of a path is escaped here.
        sentences: The verdict, likewise.
        tone: ``good``, ``bad`` or ``plain`` (:class:`memlens.text.Answer`).
        words: What is said below the pictures, as HTML without scripts and styles (:mod:`memlens.reports.html`).
        data: What the script shows; arrays of integers in it are packed (:mod:`memlens.drawing.packing`).  Without it the page has no script.

    Raises:
        MemlensError: A figure in the data is too large for a browser.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

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
        words=words.replace(' style="text-align:right"', ' class="right"'),
        style=style,
        script=script,
        data="" if data is None else _embedded(data),
        policy=_policy(style, script),
    )
    return text


def script_of(names: Sequence[str]) -> str:
    """Modules as one script: their texts in order, without the imports and exports between them, and without comments.

    It is ASCII, so that its hash stays what it is where the page is served in another encoding.
    """
    texts = (_EXPORT.sub("", _IMPORT.sub("", _text(f"{name}.js"))) for name in names)
    script = _COMMENT.sub("", "".join(texts))
    return script.encode("ascii", "backslashreplace").decode()


def _embedded(data: dict[str, Any]) -> str:
    """JSON that may stand in a script element."""
    return re.sub("[<>&\u2028\u2029]", lambda found: _UNSAFE[found[0]], encoded(data).decode())


def encoded(data: dict[str, Any]) -> bytes:
    """Return a view of the page as JSON, arrays of integers packed."""
    return msgspec.json.encode(packed(data))


def _policy(style: str, script: str) -> str:
    scripts = _hash(script) if script else "'none'"
    return f"default-src 'none'; script-src {scripts}; style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _text(name: str) -> str:
    return resources.files("memlens.drawing").joinpath("viewer", name).read_text("utf-8")


class Owners:
    """Owners of a log by their numbers in a page, given out from 0 as parts of the page ask for them; -1 is no owner.

    Args:
        log: The log that the events and the owners are of.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._labels = owner_labels(log)
        self._numbers: dict[str, int] = {}

    def code(self, events: Ints) -> Ints:
        """The owners of some events, int64; of blocks that are live before the input begins ``(before the input)``, where nothing better is known."""
        labels = owners_of(self._log, events)
        kinds = distinct(labels)
        numbers = self.code_texts(self._labels[label] for label in kinds.tolist())
        coded: Ints = numbers[kinds.searchsorted(labels)] if len(labels) else labels
        return coded

    def code_texts(self, texts: Iterable[str | None]) -> Ints:
        """The numbers of owners by their texts, as results of analyzers have them, int64."""
        numbers = self._numbers
        return np.array([-1 if text is None else numbers.setdefault(text, len(numbers)) for text in texts], np.int64)

    def texts(self) -> dict[str, str]:
        """Return the whole texts in the order of their numbers; to be asked for last."""
        return pack_json([visible(text) for text in self._numbers])

    def short_texts(self) -> dict[str, str]:
        """Return the same in short: the innermost frame, and the user's own."""
        return pack_json([visible(innermost(text)) for text in self._numbers])
