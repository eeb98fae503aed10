"""Reports: results in, text out.  None of them computes a figure or opens a file.

A *screen* (``analyze`` with ``lists`` and ``tables``, ``diff``, ``compare``, ``gate``) makes
``blocks`` from a result; a *form* (``terminal``, ``markdown``) shows blocks, or writes the result itself for programs (``machine``, and ``gate`` for what runs jobs).
A new form is a module here and a line in :data:`FORMS`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from memlens.reports.blocks import Block
    from memlens.results import Result

#: Every form of output: the function that makes the text, and what it makes it of; of a result it makes it in parts.
FORMS = {
    "table": ("memlens.reports.terminal:render", "blocks"),
    "json": ("memlens.reports.machine:json_parts", "result"),
    "csv": ("memlens.reports.machine:csv_parts", "result"),
    "markdown": ("memlens.reports.markdown:render", "blocks"),
}


def in_parts(form: str, result: Result, blocks: Callable[[], Sequence[Block]], **screen: Any) -> Iterable[str]:
    """A result as parts of a text: what is for programs may be longer than memory holds.

    Args:
        form: One of :data:`FORMS`.
        result: What a verb gives.
        blocks: Makes what people see; called for the forms for people only.
        screen: The width and the abilities of a terminal, as :func:`memlens.reports.terminal.render` takes them.
    """
    where, made_of = FORMS[form]
    module, _, name = where.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function(result) if made_of == "result" else (function(blocks(), **screen),)
