"""The command line: the one visible list of verbs, and the one place where errors become messages and exit codes.

A verb is a module with a click command that returns its exit code (``None`` is 0).  Its module is imported only when the
verb runs, so that ``memlens --help`` answers at once.
"""

from __future__ import annotations

import gc
import importlib
import os
import shlex
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import click

from memlens.errors import MemlensError
from memlens.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Every verb, and what it does in one line.  Its command is in the module of its name in :mod:`memlens.cli.verbs`; ``memlens`` has a function of that name.
VERBS: dict[str, str] = {
    "analyze": "Say where the memory went, in a whole log or in any part of it.",
    "slice": "Cut the raw text of one window out of a log.",
    "diff": "Say which allocation one run frees and the other keeps.",
    "compare": "Put many runs, or the ranks of one job, side by side.",
    "gate": "Fail where memory grew beyond a baseline or a budget.",
    "whatif": "Replay a run under other settings of its allocator.",
    "block": "Tell the life of one block: its ALLOC, its FREE, its neighbours.",
    "report": "Make one HTML page to look at: levels, lifetimes, memory map.",
    "plot": "Draw the levels of one log or several as a still picture.",
    "export": "Write events, lifetimes, a trace or profiles that other tools open.",
    "record": "Run a program and record its log; say where its memory went.",
    "watch": "Follow logs that grow: levels, peak, last windows, live.",
    "formats": "List the formats that memlens reads, or say which one a log has.",
}

_INTERRUPTED = 130  # 128 + SIGINT, what shells expect

# A command makes many small results and few cycles: look for those a hundred times less often than usual.
_COLLECT_AFTER = 70_000


class _LazyGroup(click.Group):
    """A group that knows its verbs by name and imports one only when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        if cmd_name != "record":  # whose program is not to find it
            # NumPy's linear algebra library starts a thread for each processor as it is loaded.  No verb uses it.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        return cast("click.Command", importlib.import_module(f"memlens.cli.verbs.{cmd_name}").command)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = tuple(args)  # click takes words off the list
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.possibilities or ctx.resilient_parsing:
                raise
            from memlens.text import visible

            verb = next((word for word in given if word in VERBS), "analyze")
            meant = shlex.join(["memlens", verb, *(word for word in given if word != verb)])
            option = visible(repr(error.option_name))
            ctx.fail(f"No such option {option} before a command. Did you mean: {visible(meant)}")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        unknown = name == "-" or not (name.startswith("-") or self.get_command(ctx, name))
        if unknown and not ctx.resilient_parsing:  # as it is where a shell asks for completions
            from memlens.text import visible

            meant = _meant(args)
            ctx.fail(f"No such command {visible(repr(name))}." + (f" Did you mean: {visible(meant)}" if meant else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


def _meant(args: Sequence[str]) -> str:
    """Suggest what somebody may have meant who named no verb: one that is spelt alike, or the verb for a log; ``""`` where neither."""
    import difflib

    from memlens.source import is_url

    name = args[0]
    if name == "-" or os.path.isfile(name) or is_url(name) or any(mark in name for mark in "./\\"):
        return shlex.join(["memlens", "analyze", *args])
    close = difflib.get_close_matches(name.lower(), VERBS, 1)
    return shlex.join(["memlens", *close, *args[1:]]) if close else ""


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: memlens analyze LOG.  Each command has examples: memlens analyze --help.",
)
@click.version_option(__version__, "-V", "--version", prog_name="memlens", message="%(prog)s %(version)s")
def group() -> None:
    """Read the allocator log of a deep-learning run and say where the memory went.

    The result goes to stdout, progress and notes to stderr. Exit codes: 0 done, 1 it failed (unreadable input, no
    events, no such anchor), 2 wrong usage, 3 a regression.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: What follows the program's name; ``sys.argv`` by default.
    """
    _open_closed_streams()
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except MemlensError as error:
        report_error(error)
        return error.exit_code
    except click.ClickException as error:
        from memlens.text import visible

        error.message = visible(error.message)  # type: ignore[misc]  # no control characters of an argument
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _interrupted()
    except BrokenPipeError:
        from memlens.output import silence_stdout

        silence_stdout()
        return 0
    except MemoryError:
        hint = "Cut a part out of it with memlens slice, or use a larger machine."
        report_error(MemlensError("not enough memory for this log", hint))
        return 1
    except Exception as error:  # noqa: BLE001  what nobody thought of must still say what it is
        if isinstance(error.__cause__, KeyboardInterrupt):  # it came while a class was made
            return _interrupted()
        import traceback

        from memlens.output import stdout_failed

        if (failed := stdout_failed(error)) is not None:
            report_error(failed)
            return failed.exit_code

        traceback.print_exc()
        click.echo(f"memlens {__version__}: this is a bug in memlens; please report it with the lines above", err=True)
        return 1
    finally:
        if arguments is None:
            # The process ends here.  It would look for cycles among all that NumPy and memlens ever made, which takes a sixth of a small log.
            gc.freeze()


def _interrupted() -> int:
    click.echo("memlens: interrupted", err=True)
    return _INTERRUPTED


def _open_closed_streams() -> None:
    """Give the streams that the shell closed (``>&-``) something that fails as a closed file does, and not as ``None``."""
    for name, flags, mode in (("stdin", os.O_WRONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_WRONLY, "w")):
        if getattr(sys, name) is None:
            # Not what the stream asks for, so that reading it, or writing to it, is an error; of messages only nothing is said.
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))


def _run(arguments: list[str]) -> int:
    if "_MEMLENS_COMPLETE" in os.environ:  # the shell asks for completions
        from memlens.cli.options import complete

        return complete(group, os.environ["_MEMLENS_COMPLETE"])
    gc.set_threshold(_COLLECT_AFTER)
    result: Any
    try:
        # Not Group.main(): it ends the process with 1 at a closed pipe, and hides Ctrl-C behind an exception of its own.
        with group.make_context("memlens", arguments) as context:
            result = group.invoke(context)
    except click.exceptions.Exit as stop:
        result = stop.exit_code
    try:
        # While a closed pipe can still be caught; at interpreter exit it would end in a message and exit code 120.
        sys.stdout.flush()
    except BrokenPipeError:
        from memlens.output import silence_stdout

        silence_stdout()
    return int(result or 0)


def report_error(error: MemlensError) -> None:
    """Write an error on stderr: ``memlens: error: …``, and below it what to do next.

    File names and log text in it are made harmless first.
    """
    import shutil

    from memlens.reports.terminal import wrap
    from memlens.text import no_command, visible

    message, *rest = error.message.splitlines() or [""]
    width = shutil.get_terminal_size().columns - 2 if sys.stderr.isatty() else None
    with suppress(OSError):  # the exit code stands where stderr takes nothing
        for number, text in enumerate((f"memlens: error: {message}", *rest, *error.hint.splitlines())):
            for line in wrap(visible(text), width):
                click.echo(no_command(f"{'  ' if number else ''}{line}"), err=True)
