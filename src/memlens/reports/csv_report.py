"""An analysis or a comparison as CSV: a row a window (or pair of windows), a column a figure, exact integers.

Lists (what is live at the peak, what is held, what differs) are not in it; JSON has them.  Text from a log is made visible as on the terminal,
and a cell of text that a spreadsheet would take for a formula gets an apostrophe in front, as spreadsheets themselves write it.
Programs that join on names should read the JSON, where names are exact.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any, cast

from memlens.reports.tables import sorted_analysis
from memlens.reports.text import visible

if TYPE_CHECKING:
    from memlens.analyzing.analyze import Analysis
    from memlens.comparing.result import Comparison
    from memlens.diffing.result import Diff

__all__ = ["render"]

_FORMULA = ("=", "+", "-", "@")


def render(result: Analysis | Diff | Comparison, *, sort: str | None = None) -> str:
    """A heading and a row a window; ``sort`` orders windows and logs of an analysis as in the tables."""
    rows = (result if sort is None else sorted_analysis(cast("Analysis", result), sort)).rows()
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_cell(name) for name in names)
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return "" if value is None else value
    text = visible(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
