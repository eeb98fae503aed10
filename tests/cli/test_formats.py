"""``memlens formats``, and the options of the other verbs that say how inputs are to be read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memlens
from memlens.cli import main

RMM_TEXT = (
    b"Thread,Time,Action,Pointer,Size,Stream\n"
    b"5563,10:29:36.035900,allocate,0x7fae7c001750,4096,0\n"
    b"5563,10:29:36.035911,free,0x7fae7c001750,4096,0\n"
)
TRACE = json.dumps(
    {
        "traceEvents": [
            {
                "ph": "i",
                "name": "[memory]",
                "pid": 1,
                "tid": 1,
                "ts": float(ts),
                "args": {
                    "Device Type": 1,
                    "Device Id": device,
                    "Addr": 16 * ts,
                    "Bytes": size,
                    "Total Allocated": size,
                },
            }
            for ts, device, size in ((1, 0, 512), (2, 1, 1024))
        ]
    }
).encode()
FORMATS = """
[[format]]
name = "pool"
literal = "pool: "
regex = 'pool: (?P<kind>take|give) (?P<size>[0-9]+) (?P<addr>[0-9a-f]+)'
alloc = ["take"]
free = ["give"]
samples = ["pool: take 64 ff", "pool: \\u001b"]
"""


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_bytes(TRACE)
    return path


def test_the_list_has_every_format_with_a_sample(run: Run) -> None:
    code, out, _ = run("formats")
    assert code == 0
    for form in memlens.formats().known:
        assert f"{form.name}  {form.summary}" in out
        assert f"  sample  {form.sample}\n  sizes   {form.sizes}\n  places  {form.places}" in out
        assert ("lines" in form.places) == form.is_text


def test_formats_of_your_own_are_listed_with_their_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(FORMATS.replace(', "pool: \\u001b"', ""))
    _, out, _ = run("formats", "--formats", path)
    assert (
        f"pool  a format of your own\n  sample  pool: take 64 ff\n  sizes   what its lines say\n  places  lines\n  from    {path}"
        in out
    )


def test_an_input_is_told_with_the_reason(run: Run, tmp_path: Path, trace: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(RMM_TEXT)
    code, out, _ = run("formats", path, trace)
    assert code == 0
    assert out.splitlines()[:3] == ["2 of 2 inputs can be read.", "", str(path)]
    assert "  format  rmm: " in out
    assert "  why     it holds RMM's header or whole rows of its log" in out
    assert "  format  kineto: " in out


def test_json_has_the_same_by_a_contract(run: Run, trace: Path) -> None:
    _, out, _ = run("formats", trace, "--format", "json")
    found = json.loads(out)
    assert found["schema"] == "memlens.formats/1"
    assert [form["name"] for form in found["formats"]][:4] == ["paddle", "paddle-history", "torch-snapshot", "kineto"]
    assert found["inputs"][0] == {
        "path": str(trace),
        "format": "kineto",
        "compression": "",
        "why": "it is JSON and begins like a trace",
        "looks_like": "",
        "hint": "",
    }


def test_what_holds_nothing_is_not_called_readable(run: Run, tmp_path: Path, trace: Path) -> None:
    empty, text = tmp_path / "empty.log", tmp_path / "text.log"
    empty.write_bytes(b"")
    text.write_text("epoch 1\nepoch 2\n")
    code, out, _ = run("formats", empty)
    assert (code, out.partition("\n")[0]) == (1, f"{empty} cannot be read: it is an empty file.")
    code, out, _ = run("formats", text)
    said = f"Nothing that memlens reads was recognised in the first 64 KiB of {text}."
    assert (code, out.partition("\n")[0]) == (1, said)
    code, out, _ = run("formats", trace, empty, text)
    assert (code, out.partition("\n")[0]) == (1, "1 of 3 inputs can be read.")
    assert run("formats", trace)[0] == run("formats")[0] == 0


def test_an_unsound_format_is_wrong_usage_and_harmless_in_a_terminal(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(FORMATS)
    code, _, err = run("formats", "--formats", path)
    assert code == 2
    assert "format 'pool'" in err
    assert "\x1b" not in err


@pytest.mark.parametrize("verb", ["analyze", "diff", "compare", "gate"])
def test_every_verb_can_be_told_the_format(run: Run, tmp_path: Path, verb: Any) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(RMM_TEXT)
    more: dict[str, list[object]] = {"diff": [path], "gate": ["--budget", "peak=1GiB"]}
    rest = more.get(verb, [])
    assert run(verb, path, *rest, "--read-as", "rmm")[0] == 0
    code, _, err = run(verb, path, *rest, "--read-as", "rmn")
    assert code == 2
    assert "Did you mean 'rmm'?" in err


def test_slice_says_what_has_no_text(run: Run, trace: Path) -> None:
    code, _, err = run("slice", trace)
    assert code == 1
    assert "is a Kineto trace: it has no lines of text to cut" in err


def test_a_device_is_a_number_or_cpu(run: Run, trace: Path) -> None:
    code, _, err = run("analyze", trace, "--device", "gpu")
    assert code == 2
    assert "is no device" in err
    code, _, err = run("analyze", trace, "--device", "cpu")
    assert code == 1
    assert "has no device -1" in err
