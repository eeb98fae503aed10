"""An analysis or a comparison as JSON: exact integers, the names of the contract, and ASCII only.

Text from a log is a JSON string with every character beyond ASCII escaped: no terminal that the output is printed on by accident
obeys it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from memlens.reports.tables import sorted_analysis

if TYPE_CHECKING:
    from memlens.analyzing.analyze import Analysis
    from memlens.comparing.result import Comparison
    from memlens.diffing.result import Diff

__all__ = ["render"]


def render(result: Analysis | Diff | Comparison, *, sort: str | None = None) -> str:
    """One JSON document with a newline at its end; ``sort`` orders windows and logs of an analysis as in the tables."""
    values = (result if sort is None else sorted_analysis(cast("Analysis", result), sort)).to_dict()
    return json.dumps(values, ensure_ascii=True, allow_nan=False, indent=1, default=_plain_value) + "\n"


def _plain_value(value: Any) -> Any:
    """NumPy scalars, as analyzers of other packages may give, as what they are."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a result holds {type(value).__name__}, which is no JSON")
