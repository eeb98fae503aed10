"""Which fields are rows and columns, and with which run each run is compared."""

from __future__ import annotations

from typing import Any

import pytest

from memlens.comparing.layout import Layout, lay_out, lay_out_list
from memlens.errors import UsageError
from memlens.summarizing.summary import Run

VALUES = {"gbs": ("32", "64"), "branch": ("develop", "pr"), "rank": ("0", "1"), "node": ("a",)}


def layout(*, rows: tuple[str, ...] = (), cols: str | None = None, base: str | None = None, **values: Any) -> Layout:
    return lay_out(values or VALUES, ["a.log", "b.log"], rows, cols, base)


def test_words_are_columns_and_numbers_are_rows() -> None:
    assert layout() == Layout(("gbs", "rank"), "branch", "branch", "develop")


def test_the_field_of_the_base_is_columns() -> None:
    assert layout(base="rank=1") == Layout(("gbs", "branch"), "rank", "rank", "1")


def test_what_is_asked_for_comes_first_and_the_rest_follows() -> None:
    assert layout(rows=("rank",)).rows == ("rank", "gbs")
    assert layout(rows=("rank", "branch")) == Layout(("rank", "branch", "gbs"), None)
    assert layout(cols="gbs") == Layout(("branch", "rank"), "gbs", "gbs", "32")
    assert layout(cols="gbs", base="branch=pr") == Layout(("branch", "rank"), "gbs", "branch", "pr")
    assert layout(rows=("node",), cols="branch").rows == ("node", "gbs", "rank")


def test_a_base_that_is_none_of_the_logs_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match=r"the base c\.log is none of the logs"):
        lay_out_list(["a.log"], "c.log")


def test_a_run_is_compared_with_the_one_that_is_alike_in_all_other_fields() -> None:
    runs = [
        Run(f"{branch}{rank}", {"branch": branch, "rank": rank}, "ok")
        for branch in ("pr", "develop", "other")
        for rank in "01"
        if (branch, rank) != ("develop", "1")
    ]
    bases = list(layout(base="branch=develop").bases(runs))
    named = {run.path: None if base is None else base.path for run, base in zip(runs, bases, strict=True)}
    assert named == {"pr0": "develop0", "pr1": None, "develop0": None, "other0": "develop0", "other1": None}


def test_a_base_in_the_rows_compares_within_each_column() -> None:
    runs = [
        Run(f"{branch}{gbs}", {"branch": branch, "gbs": gbs}, "ok")
        for branch in ("pr", "develop")
        for gbs in ("32", "64")
    ]
    bases = layout(cols="branch", base="gbs=32", gbs=("32", "64"), branch=("develop", "pr")).bases(runs)
    assert [base and base.path for base in bases] == [None, "pr32", None, "develop32"]
