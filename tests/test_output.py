"""Outputs appear whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from memlens.errors import OutputError
from memlens.output import open_output, refuse_overwrite


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "out.log"
    with open_output(target) as out:
        out.write(b"text")
        out.flush()
        assert not target.exists()
    assert target.read_bytes() == b"text"
    assert names(tmp_path) == ["out.log"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, BrokenPipeError, OSError])
def test_nothing_is_left_behind_when_the_work_is_broken_off(tmp_path: Path, error: type[BaseException]) -> None:
    def break_off() -> None:
        with open_output(tmp_path / "out.log") as out:
            out.write(b"half")
            raise error

    with pytest.raises(error):
        break_off()
    assert names(tmp_path) == []


def test_a_file_that_exists_is_refused_before_any_work(tmp_path: Path) -> None:
    target = tmp_path / "out.log"
    target.write_text("old")
    with pytest.raises(OutputError, match="exists") as error, open_output(target):
        pytest.fail("the work was begun")
    assert "-f" in error.value.hint
    with pytest.raises(OutputError):
        refuse_overwrite(target)
    refuse_overwrite(target, force=True)
    refuse_overwrite(None)
    refuse_overwrite("-")


def test_a_file_that_comes_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    target = tmp_path / "out.log"

    def work() -> None:
        with open_output(target) as out:
            out.write(b"ours")
            target.write_text("theirs")

    with pytest.raises(OutputError, match="exists"):
        work()
    assert (target.read_text(), names(tmp_path)) == ("theirs", ["out.log"])


def test_force_keeps_the_mode_of_the_file(tmp_path: Path) -> None:
    target = tmp_path / "out.log"
    target.write_text("old")
    target.chmod(0o640)
    with open_output(target, force=True) as out:
        out.write(b"new")
    assert (target.read_bytes(), stat.S_IMODE(target.stat().st_mode)) == (b"new", 0o640)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with open_output(tmp_path / "link", force=True) as out:
        out.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_name_that_no_file_can_have_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"^cannot write .*: File name too long"):
        refuse_overwrite(tmp_path / ("y" * 300))


@pytest.mark.skipif(not hasattr(os, "setreuid"), reason="needs users")
def test_a_folder_that_cannot_be_written_to_is_said_before_the_work(tmp_path: Path) -> None:
    """An old file in it is another matter: it may be written in its place."""
    old = tmp_path / "old.log"
    old.write_text("old")
    refuse_overwrite(tmp_path / "new.log")
    tmp_path.chmod(0o555)
    user = os.getuid()
    try:
        if user == 0:
            os.setreuid(65534, 0)  # os.access asks for the real user
        refuse_overwrite(old, force=True)
        with pytest.raises(OutputError, match="cannot be written to"):
            refuse_overwrite(tmp_path / "new.log")
    finally:
        if user == 0:
            os.setreuid(0, 0)
        tmp_path.chmod(0o755)


def test_a_device_is_written_and_never_replaced() -> None:
    with open_output("/dev/null") as out:
        out.write(b"gone")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs names of open files")
def test_a_pipe_that_the_shell_names_is_written() -> None:
    """As ``-o /dev/stdout`` before a pipe and ``-o >(gzip)`` are."""
    read, write = os.pipe()
    with open(read, "rb") as reader:
        with open(write, "wb"), open_output(f"/dev/fd/{write}") as out:
            out.write(b"text")
        assert reader.read() == b"text"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_said_in_words() -> None:
    def fill() -> None:
        with open_output("/dev/full") as out:
            out.write(b"x" * 100_000)

    with pytest.raises(OutputError, match="cannot write /dev/full: No space left"):
        fill()


def test_what_is_written_in_parts_reaches_stdout_whole_or_not_at_all(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    text = b"x" * (3 << 20)  # more than is held in memory
    with suppress(ZeroDivisionError), open_output(None, whole=True) as out:
        out.write(text)
        raise ZeroDivisionError
    assert capsysbinary.readouterr().out == b""
    with open_output(None, whole=True) as out:
        out.write(text)
        out.write(b"end")
        sys.stdout.flush()
        assert capsysbinary.readouterr().out == b""
    assert capsysbinary.readouterr().out == text + b"end"
    with suppress(ZeroDivisionError), open_output(tmp_path / "o", whole=True) as out:
        out.write(text)
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_directory_and_a_place_that_is_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="is a directory"), open_output(tmp_path, force=True):
        pass
    with pytest.raises(OutputError, match="there is no directory"), open_output(tmp_path / "no" / "out"):
        pass
