"""The report as a file: what it holds, what it lets run, and what it does with names that would be markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from elements import Elements
from logs import ALLOC
from logs_of_reports import small_log
from unpacked import view_of

import memlens
from hostile import FILE_NAME, TEXTS, hostile_log, hostile_snapshot
from memlens.drawing.page import MODULES, page, script_of
from memlens.drawing.report import ReportPage
from memlens.errors import MemlensError, OutputError
from memlens.text import visible


def sha(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.fixture(scope="module")
def leak(examples: Path) -> ReportPage:
    return memlens.report(examples / "leak.log.gz")


def test_the_page_has_one_script_and_one_style_and_lets_nothing_else_run(leak: ReportPage) -> None:
    parts = Elements(leak.html)
    (policy,) = (meta["content"] for meta in parts.all("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    data, script = parts.texts["script"]
    (style,) = parts.texts["style"]
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == sha(script)
    assert rules["style-src"] == sha(style)
    assert rules["base-uri"] == rules["form-action"] == "'none'"
    assert json.loads(data)["schema"] == "memlens.report/1"
    for tag, attributes in parts.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "form", "base"}
        assert not [name for name in attributes if name.startswith("on") or name in ("style", "src")]
        assert (attributes.get("href") or "#").startswith("#")


def test_the_script_is_its_modules_without_what_joins_them() -> None:
    script = script_of(MODULES)
    assert script.isascii()
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
    names = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", script, re.MULTILINE)
    assert len(names) == len(set(names))
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert forbidden not in script


def test_the_page_has_the_words_of_analyze_and_the_view_its_figures(leak: ReportPage, examples: Path) -> None:
    analysis = memlens.analyze(examples / "leak.log.gz")
    assert leak.verdict == analysis.verdict
    assert leak.title == "leak.log.gz"
    assert Elements(leak.html).texts["title"] == [leak.title]
    view = view_of(leak.html)
    (window,) = analysis.to_dict()["logs"][0]["windows"]
    assert view["figures"]["peak_bytes"] == window["peak"]["peak_bytes"] == max(view["levels"]["high_bytes"])
    assert view["figures"]["reserved_peak_bytes"] == window["peak"]["reserved_peak_bytes"]
    assert view["figures"]["live_bytes"] == window["remaining"]["live_bytes"]
    assert (view["lo"], view["hi"]) == (0, window["events"])
    (peak,) = view["marks"]
    assert (peak["event"], peak["line"]) == (window["peak"]["event"], window["peak"]["line"])
    assert peak["event"] in view["levels"]["high_event"]


@pytest.mark.parametrize("name", ["log", "snapshot"])
def test_no_text_of_a_log_is_markup(name: str, tmp_path: Path) -> None:
    if name == "log":
        made = memlens.report(hostile_log(tmp_path), by="^STEP (.*) START", owners=["OWNER (.*)"], title=TEXTS[0])
    else:
        made = memlens.report(hostile_snapshot(tmp_path), title=TEXTS[0])
    parts = Elements(made.html)
    assert len(parts.all("script")) == 2
    for tag in ("img", "svg", "iframe", "link", "base", "style"):
        assert len(parts.all(tag)) == (tag == "style")
    assert {meta.get("http-equiv") for meta in parts.all("meta")} == {None, "Content-Security-Policy"}
    assert parts.texts["title"] == [TEXTS[0]]
    data = parts.texts["script"][0]
    assert not set("<>&\u2028\u2029") & set(data)
    assert visible(FILE_NAME) in json.loads(data)["logs"][0]["path"]


def test_a_verdict_cannot_turn_or_hide_text() -> None:
    html = page("run.log", sentences=["Peak: 1 MiB by \u202enosrep\u2028\x1b[31m."], tone="plain", words="")
    assert "Peak: 1 MiB by \\u202enosrep\\u2028\\x1b[31m." in html


def test_a_page_is_saved_whole_and_not_over_another(leak: ReportPage, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    leak.save(path)
    assert path.read_text("utf-8") == leak.html
    with pytest.raises(OutputError):
        leak.save(path)
    path.write_text("old")
    leak.save(path, force=True)
    assert path.read_text("utf-8") == leak.html
    assert [item.name for item in tmp_path.iterdir()] == ["report.html"]


def test_figures_that_a_browser_rounds_are_refused_in_words(tmp_path: Path) -> None:
    tebibyte = 1 << 40
    log = tmp_path / "damaged.log"
    # A page counts up to 2**52 bytes, which are 4,096 blocks of 1 TiB.
    log.write_text("".join(ALLOC.format(tebibyte, at << 40) for at in range(1, 4096)))
    assert view_of(memlens.report(log).html)["figures"]["peak_bytes"] == 4095 * tebibyte
    log.write_text("".join(ALLOC.format(tebibyte, at << 40) for at in range(1, 4097)))
    with pytest.raises(MemlensError, match="memlens analyze shows them"):
        memlens.report(log)


def test_a_path_stands_in_a_command_as_a_shell_takes_it(tmp_path: Path) -> None:
    path = small_log(tmp_path).rename(tmp_path / "it's; rm -rf $HOME.log")
    view = view_of(memlens.report(path).html)
    assert shlex.split(view["command"]) == ["memlens", "block", str(path)]


def test_the_same_log_gives_the_same_page_in_each_process(examples: Path) -> None:
    code = "import memlens, sys; sys.stdout.write(memlens.report(sys.argv[1]).html)"
    log = str(examples / "feats.log.gz")
    pages = {
        subprocess.run([sys.executable, "-c", code, log], capture_output=True, check=True).stdout for _ in range(2)
    }
    assert len(pages) == 1
