"""One HTML page that needs nothing else: the template, the style, the script and the data in one file.

Columns of integers and lists of texts are deflated, in characters that may stand in JSON within HTML; ``viewer/data.js`` unpacks them with nothing but
what browsers have.

The page sets a policy for itself (Content Security Policy Level 3, https://www.w3.org/TR/CSP3/) under which nothing runs but the one script whose hash it
names, and nothing is loaded from anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from memlens.analyzers.groups import owner_labels, owners_of
from memlens.columns import Ints, distinct
from memlens.errors import MemlensError
from memlens.text import innermost, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike

    from memlens.events import EventLog

#: The modules of the report's script, each after those that it imports from.
MODULES = str.split(
    "format data axis levels stacks ticks dom canvas boxes grid zoom layout lives paint track app "
    "life moment picture devices details address memory_map flame tables diff main"
)

#: A module's imports, one a line, and what marks its exports: in one script neither is needed.
_IMPORT = re.compile(r'^import [^;]+ from "\./[a-z_]+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const)\b)", re.MULTILINE)
#: What only readers of the modules need.
_COMMENT = re.compile(r"/\*\*(?:(?!\*/)[\s\S])*\*/ ?|^\s*//.*\n", re.MULTILINE)
#: What could end a script or begin a comment in HTML, in JSON text.
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}

#: Numbers of JavaScript are exact up to twice this, which is how a number of this is written.
_EXACT = 1 << 52
#: Of so many values it is estimated how a column is written in fewest bytes; fewer are not worth a table.
_SAMPLE = 1 << 11
#: Characters of base 85 that mean something in HTML, and what stands for them.
_SAFE = bytes.maketrans(b"<>&", b".:,")


def page(title: str, *, sentences: Sequence[str], tone: str, words: str, data: dict[str, Any] | None = None) -> str:
    """A page as text.

    Args:
        title: Its title; text from a log or of a path is escaped here.
        sentences: The verdict, likewise.
        tone: ``good``, ``bad`` or ``plain`` (:class:`memlens.text.Answer`).
        words: What is said below the pictures, as HTML without scripts and styles (:mod:`memlens.reports.html`).
        data: What the script shows; arrays of integers in it are packed (:func:`packed`).  Without it the page has no script.

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


def packed(value: object) -> Any:
    """The same tree with every array of integers in it packed (:func:`pack`), beside the columns that stand before it in the same dictionary."""
    if isinstance(value, np.ndarray):
        return pack(value)
    if isinstance(value, list | tuple):
        return [packed(one) for one in value]
    if not isinstance(value, dict):
        return value
    found, columns = {}, dict[str, "Ints"]()
    for name, one in value.items():
        if isinstance(one, np.ndarray):
            found[name] = pack(one, columns)
            columns[name] = np.asarray(one, np.int64)
        else:
            found[name] = packed(one)
    return found


def pack(values: ArrayLike, beside: Mapping[str, Ints] | None = None) -> dict[str, Any]:
    """A column of integers, written in whichever way takes the fewest bytes, as far as that can be told from some of the values.

    Args:
        values: Integers of less than 2**52 in absolute value, in any order.
        beside: Other columns by their names; those that are as long or longer may stand for a part of the values.

    Returns:
        ``n``, how many values, and ``packed``, the lowest byte of each number, then the second lowest of each, …, ``planes`` of them (:func:`_text`).  A
        number ``d`` is written ``2d`` or ``-2d - 1``, so that small ones are small; times ``unit``, where there is one, it is the difference from the number
        before, or with ``plain`` itself.  The value is that, or with ``near`` what it is more than the value of the column of that name at its place, or
        with ``table`` its index in that column.

    Raises:
        MemlensError: A value is too large: no page could show it to the byte.
    """
    column = np.asarray(values, np.int64)
    if _largest(column) >= _EXACT:
        raise MemlensError(
            f"a page cannot show figures of {_EXACT:,} and more: they are not exact in a browser",
            "memlens analyze shows them.",
        )
    how, numbers = next(way for way in _ways(column, beside or {}) if _largest(way[1]) < _EXACT)
    unit = int(np.gcd.reduce(numbers)) if len(numbers) else 0
    if unit > 1:
        numbers, how = numbers // unit, how | {"unit": unit}
    folded = ((numbers << 1) ^ (numbers >> 63)).astype("<u8")
    planes = max((int(folded.max(initial=0)).bit_length() + 7) // 8, 1)
    data = folded.view(np.uint8).reshape(-1, 8)[:, :planes].T.tobytes()
    # What is filtered is mostly small numbers with a somewhat random distribution (the manual of zlib): columns are.
    return {"n": len(column), "planes": planes, **how, "packed": _deflated(data, zlib.Z_FILTERED)}


def _largest(numbers: Ints) -> int:
    return max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))


def _ways(column: Ints, beside: Mapping[str, Ints]) -> Iterator[tuple[dict[str, Any], Ints]]:
    """Ways to write a column, the one that seems to take the fewest bits first: what says so, and the numbers to be written."""
    at = np.arange(1, len(column), max(len(column) // _SAMPLE, 1))

    def bits(numbers: Ints) -> float:
        return float(np.log2(np.abs(numbers) + 1.0).mean()) if len(numbers) else 0.0

    parts: list[tuple[dict[str, Any], Ints, Ints | None, float]] = [({}, column, None, 0.0)]
    parts += [({"near": name}, column, other, 0.0) for name, other in beside.items() if len(other) >= len(column)]
    if len(column) > _SAMPLE and len(kinds := distinct(column)) * 2 <= len(column):
        more = bits(kinds) * len(kinds) / len(column)
        parts.append(({"table": pack(kinds)}, kinds.searchsorted(column), None, more))
    found = []
    for how, numbers, other, more in parts:
        here, before = (numbers[k] - (0 if other is None else other[k]) for k in (at, at - 1))
        found += [(bits(here - before) + more, how, numbers, other)]
        found += [(bits(here) + more, how | {"plain": True}, numbers, other)]
    # Steps first: of ways that are alike the first is taken.
    for _, how, numbers, other in sorted(found, key=lambda way: way[0]):
        written = numbers if other is None else numbers - other[: len(numbers)]
        yield how, written if "plain" in how else np.diff(written, prepend=0)


def pack_json(value: object) -> dict[str, str]:
    """Anything that JSON can hold: a long list of texts, as a rule."""
    return {"json": _deflated(msgspec.json.encode(value))}


def _deflated(data: bytes, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> str:
    """Bytes deflated, in base 85 as ``base64.b85encode`` has it, but for three characters."""
    made = zlib.compressobj(6, zlib.DEFLATED, zlib.MAX_WBITS, 9, strategy)
    return base64.b85encode(made.compress(data) + made.flush()).translate(_SAFE).decode("ascii")


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
