"""The reference page of the command line, written from the commands themselves: ``python -m memlens.cli.reference > docs/cli.md``.

A test fails when ``docs/cli.md`` is not what this writes.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

import click

from memlens.cli import TWINS, VERBS, group

__all__ = ["reference"]

_HEAD = """\
# Command line

<!-- Written by python -m memlens.cli.reference; edit the commands, not this page. -->

    memlens COMMAND [OPTIONS] …

The result goes to stdout, progress and notes to stderr. `memlens --version` says which version this is, `-h` and `--help` explain
a command.

| exit code | meaning |
|---|---|
| 0 | done, and for `gate` within limits |
| 1 | it failed: unreadable input, no events, no such anchor |
| 2 | wrong usage |
| 3 | a regression |
| 130 | interrupted with Ctrl-C; no half-written file is left |

A pipe that is closed early (`memlens analyze run.log | head -3`) ends memlens quietly.

## How tables are written

- In a terminal a table takes the terminal's width. Where there is no room the least important columns are left out, and a line below the
  table names them; names are shortened in their middle; figures are never cut.
- A pipe or a file has no width: nothing wraps and no column is left out. Set `COLUMNS` to give a pipe a width.
- Colour is used in a terminal only, and not where `NO_COLOR` is set or `TERM` is `dumb`.
- Characters of a log or a file name that a terminal would act upon are written visibly: ESC as `\\x1b`, a right-to-left override as
  `\\u202e`.
- A progress bar comes up on stderr after a second, if stderr is a terminal and `CI` is not set.

## Files that are written

- A file that exists is written over with `-f` only; `gate --accept` writes over a baseline, and over nothing else.
- No output may be an input of the same command: a log, also one that a template finds or that comes through stdin, a baseline or the events beside it, the file of
  formats or the nearest `pyproject.toml`. Files are compared and not names, so `./run.log`, a link and a hard link are the log too. That is wrong usage (2), said before
  anything is read. It holds for the summary of a job (`--github`) too. `slice` writes while it reads, so its stdout must not be the log either (`>> run.log`).
- A file appears whole or not at all: it is written beside its place, as `.NAME.xxxxxxxx.part`, and renamed. Ctrl-C and errors leave nothing. What `kill -9` leaves is removed by the next run
  that writes the same file; what another running process is writing is locked, and stays.

## Formats

| `--format` | what | text from the log |
|---|---|---|
| `table` | for people: KiB, MiB and GiB with two decimals | made visible, long names shortened |
| `markdown` | the same as GitHub Markdown, to paste into an issue or a pull request | in code spans and fenced code, so that nothing in it is markup, a link or a mention |
| `json` | all results by a contract (`memlens.analyze/2`, `memlens.diff/2`, `memlens.compare/2`, `memlens.gate/2`, `memlens.formats/1`): exact bytes, 1-based lines, 0-based events | exact, ASCII only; bytes that are no UTF-8 become U+FFFD |
| `csv` | a row a window or a pair of windows, a column a figure, exact bytes | made visible; a cell that begins with `=`, `+`, `-` or `@` gets an apostrophe in front, so that no spreadsheet takes it for a formula |

## The JSON of analyze

    {"schema": "memlens.analyze/2",
     "logs": [{"path": "run.log",
               "trust": {"ok": true, "doubts": [], …},
               "windows": [{"name": "SOT_CALL_4", "start_line": 166, "end_line": 182, "events": 7, "open_end": false,
                            "remaining": {"remaining_bytes": 7077888, …}, "peak": {…}, "stats": {…}, …}],
               "growth": null,
               "notes": []}],
     "failures": [{"path": "other.log", "message": "…", "hint": "…"}]}

| field | what |
|---|---|
| `schema` | name and version of this contract; fields are added to it, never renamed |
| `logs` | one entry a log that could be analyzed, in the order given |
| `path` | the log as it was named; `<stdin>` for `-` |
| `trust` | the trust report, see [trust.md](trust.md) |
| `windows` | one entry a window, in file order unless `--sort` says otherwise; one window without `--by` |
| `name` | text from the log; `(whole log)`, or `(before)` for what precedes the first window of a series |
| `start_line`, `end_line` | first and last line, 1-based, both included |
| `events` | how many events are in it |
| `open_end` | it is an [open window](analyzers.md#words): it runs to the end of the log, and is not judged where others of its series are closed |
| `remaining`, `peak`, `stats`, `unmatched`, `lifetimes`, … | the result of each analyzer, see [analyzers.md](analyzers.md) |
| `…_left_out` | how many rows of the list before it were left out by `--top` or `--min-size` |
| `growth` | over the windows of a series; else `null` |
| `notes` | what to doubt of the windows themselves, which one is open, and whether the peak may lie before the first event; in words |
| `failures` | only where some of several logs could not be analyzed: each with its `message` and `hint` |

The JSON of `memlens diff` is in [diff.md](diff.md#the-machine-output), that of `memlens compare` in [compare.md](compare.md#the-machine-output),
that of `memlens gate` in [gate.md](gate.md#the-machine-output).
"""


def reference() -> str:
    """The whole page, Markdown."""
    context = click.Context(group, info_name="memlens", **group.context_settings)
    parts = [_HEAD.rstrip()]
    for verb in VERBS:
        command = group.get_command(context, verb)
        assert command is not None
        parts.append("\n".join(_command(verb, command, context)))
    return "\n\n".join(parts) + "\n"


def _command(verb: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=verb, parent=parent, **command.context_settings)
    yield f"## memlens {verb}"
    yield ""
    yield f"    memlens {verb} {' '.join(command.collect_usage_pieces(context))}"
    yield ""
    yield _paragraphs(command.help or "")
    yield ""
    yield f"In Python: `{TWINS[verb]}`."
    yield ""
    yield "| option | |"
    yield "|---|---|"
    for option in command.params:
        if isinstance(option, click.Option):
            yield f"| {_names(option, context)} | {_cell(option)} |"
    yield "| `-h`, `--help` | Show the help and exit. |"
    if command.epilog:
        yield ""
        yield "Examples:"
        yield ""
        lines = command.epilog.replace("\b\n", "").splitlines()
        yield from (f"    {line.removeprefix('  ')}" for line in lines if line.strip() != "Examples:")


def _paragraphs(text: str) -> str:
    return inspect.cleandoc(text.replace("\b\n", ""))


def _names(option: click.Option, context: click.Context) -> str:
    if isinstance(option.type, click.Choice):
        value = f" {'|'.join(option.type.choices)}"
    else:
        value = "" if option.is_flag else f" {option.make_metavar(context)}"
    return ", ".join(f"`{name}{value if name.startswith('--') else ''}`" for name in option.opts).replace("|", "\\|")


def _cell(option: click.Option) -> str:
    text = (option.help or "").replace("|", "\\|")
    default = f" Default: `{option.default}`." if option.show_default else ""
    return f"{text}{default}"


if __name__ == "__main__":
    sys.stdout.write(reference())
