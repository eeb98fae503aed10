"""``memlens.compare``: the tables of cases 2, 3 and 5 as figures, from logs."""

from __future__ import annotations

import json
from pathlib import Path

import made_runs as made
import pytest

import memlens

MIB = made.MIB


@pytest.fixture(scope="module")
def case_3(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The template of the eight-card matrix."""
    return made.write_case_3(tmp_path_factory.mktemp("runs"))


# --- the cases ---


def test_case_2_on_real_logs_gives_the_figures_of_the_device(shared: Path) -> None:
    """PT, PIR before the change and PIR after it; both maxima are compared with the first."""
    folder = shared / "data" / "paddle"
    names = ["30b2_ast_transformer_pt", "30b2_ast_transformer_pir", "30_ast_transformer_pir"]
    rows = memlens.compare([folder / f"{name}.log" for name in names]).rows()
    reserved = [json.loads((folder / f"{name}.stats.json").read_text())["hostdev_peak"] for name in names]
    allocated = [11790080, 12576512, 12054784]  # replayed by an independent script, see the README of the data
    assert [row["reserved_peak_bytes"] for row in rows] == reserved
    assert [row["peak_bytes"] for row in rows] == allocated
    assert [row["d_peak_bytes"] for row in rows] == [None, allocated[1] - allocated[0], allocated[2] - allocated[0]]
    assert [row["d_reserved_peak_bytes"] for row in rows] == [None, *(figure - reserved[0] for figure in reserved[1:])]


def test_case_3_gives_every_cell_its_change_and_its_slopes(case_3: str) -> None:
    comparison = memlens.compare(case_3, rows=["gbs", "rank"], cols="branch", base="branch=develop")
    rows = {(row["gbs"], row["branch"], row["rank"]): row for row in comparison.rows()}
    assert len(rows) == len(comparison.runs) == 96
    for gbs, branch, card, mib in made.case_3():
        row = rows[str(gbs), branch, str(card)]
        if mib is None:
            assert (row["status"], row["oom_requested_bytes"]) == ("oom", made.OOM_BYTES)
            assert row["peak_bytes"] == 31 * 1024 * MIB
            continue
        assert (row["status"], row["peak_bytes"], row["oom_requested_bytes"]) == ("ok", mib * MIB, None)
        base = made.expected_mib(gbs, "develop", card)
        change = None if branch == "develop" or base is None else (mib - base) * MIB
        assert row["d_peak_bytes"] == change
    changes = {key[0] + "/" + key[2]: row["d_peak_bytes"] for key, row in rows.items() if key[1] == "PR"}
    published = {"64/1": -254, "256/1": -1028, "1024/1": -4124, "2048/1": -8252}
    published |= {"256/7": -334, "1024/7": -3936, "2048/7": -7876}
    assert {place: changes[place] for place in published} == {place: mib * MIB for place, mib in published.items()}
    slopes = {
        (slope.fields["branch"], slope.fields["rank"]): slope
        for slope in comparison.scaling
        if slope.metric == "peak_bytes"
    }
    assert {slope.verdict for (branch, _), slope in slopes.items() if branch == "PR"} == {"flat"}
    assert [slopes["develop", str(card)].verdict for card in made.CARDS] == ["flat", *["growing"] * 7]
    assert f"{slopes['develop', '1'].slope / MIB:+.2f}" == "+4.03"
    assert {(slope.ooms, slope.points) for (branch, _), slope in slopes.items() if branch == "develop"} == {(1, 5)}


# --- runs that are not there ---


def test_what_cannot_be_read_has_its_row_and_no_figure(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(made.log_text(MIB))
    (tmp_path / "b.log").write_text("nothing\n")
    comparison = memlens.compare([tmp_path / name for name in ("a.log", "b.log", "c.log")])
    rows = comparison.rows()
    assert [row["status"] for row in rows] == ["ok", "unreadable", "missing"]
    assert [row["peak_bytes"] for row in rows] == [MIB, None, None]
    assert [row["d_peak_bytes"] for row in rows] == [None, None, None]
    values = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert values["schema"] == "memlens.compare/3"
    assert [(run["status"], run["windows"] != [], run["trust"]) for run in values["runs"]] == [
        ("ok", True, {"ok": True, "doubts": []}), ("unreadable", False, None), ("missing", False, None),
    ]  # fmt: skip


def test_windows_are_paired_by_name_and_those_that_a_run_lacks_are_named(tmp_path: Path) -> None:
    for name, steps in (("a.log", 3), ("b.log", 2)):
        (tmp_path / name).write_text(made.log_text((steps + 1) * MIB, steps=steps))
    comparison = memlens.compare([tmp_path / "a.log", tmp_path / "b.log"], by=r"STEP (\d+)")
    first, second = comparison.runs
    assert comparison.windows == ("0", "1", "2")
    assert (comparison.missing_windows(first), comparison.missing_windows(second)) == ((), ("2",))
    rows = [(row["window"], row["status"], row["d_peak_bytes"]) for row in comparison.rows()]
    assert rows == [
        ("0", "ok", None), ("0", "ok", -MIB), ("1", "ok", None), ("1", "ok", -MIB), ("2", "ok", None), ("2", "no_window", None),
    ]  # fmt: skip
    assert comparison.to_dict()["runs"][1]["missing_windows"] == ["2"]


def test_a_typical_window_is_the_median_over_the_windows_that_all_runs_have(tmp_path: Path) -> None:
    text = "".join(made.log_text(mib * MIB).replace("STEP 0", f"STEP {step}") for step, mib in enumerate((5, 1, 9, 7)))
    (tmp_path / "a.log").write_text(text)
    (tmp_path / "b.log").write_text(text.partition("STEP 3")[0] + "STEP 4 START\n")
    comparison = memlens.compare([tmp_path / "a.log", tmp_path / "b.log"], by=r"STEP (\d+)")
    assert [one and one.peak_bytes for one in comparison.typical] == [5 * MIB, 5 * MIB]  # of 5, 1 and 9


def test_the_only_window_of_a_series_is_typical_though_it_is_open(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(made.log_text(3 * MIB))
    comparison = memlens.compare([tmp_path / "a.log"] * 2, by=r"STEP (\d+)")
    assert [one and one.peak_bytes for one in comparison.typical] == [3 * MIB] * 2
    assert comparison.runs[0].windows[0].open_end


def test_a_window_that_is_open_in_one_run_is_typical_of_none(tmp_path: Path) -> None:
    text = "".join(made.log_text(mib * MIB).replace("STEP 0", f"STEP {step}") for step, mib in enumerate((5, 5, 9)))
    (tmp_path / "a.log").write_text(text)
    (tmp_path / "b.log").write_text(text + "STEP 3 START\n")
    comparison = memlens.compare([tmp_path / "a.log", tmp_path / "b.log"], by=r"STEP (\d+)")
    assert [[window.name for window in run.windows if window.open_end] for run in comparison.runs] == [["2"], ["3"]]
    # of the peaks 5, 5 and 9 the last is left out in both: the lower median of 5 and 5
    assert [one and one.peak_bytes for one in comparison.typical] == [5 * MIB, 5 * MIB]


# --- inputs ---
