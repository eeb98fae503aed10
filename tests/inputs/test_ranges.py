"""Remote objects read by ranges, from a store that is made for each test."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memlens
from memlens.errors import InputError
from memlens.inputs import file_source, lookup
from memlens.inputs.file_source import FileSource
from memlens.inputs.remote import ranges
from memlens.inputs.remote.ranges import RemoteObject
from memlens.source import MemorySource


class Store:
    """One object, and what was asked of it."""

    def __init__(self, data: bytes, trouble: Callable[[int], None] = lambda _: None, **said: Any) -> None:
        self.data, self.said, self.trouble = data, said, trouble
        self.spans: list[tuple[int, int]] = []
        self.looks, self.under_way, self.most = 0, 0, 0
        self._lock = threading.Lock()

    def look(self) -> dict[str, Any]:
        self.looks += 1
        return {"size": len(self.data), **self.said}

    def open(self) -> Any:
        return _File(self)

    def read(self, begin: int, size: int) -> bytes:
        with self._lock:
            self.spans.append((begin, begin + size))
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            number = len(self.spans)
        try:
            self.trouble(number)
            return self.data[begin : begin + size]
        finally:
            with self._lock:
                self.under_way -= 1

    def remote(self, in_flight: int = 8) -> RemoteObject:
        details = self.look()
        self.looks = 0

        def in_words(error: Exception) -> InputError:
            return InputError(f"s3://x: {type(error).__name__}: {error}")

        return RemoteObject(self.open, self.look, details, "s3://x", in_words, in_flight)


class _File:
    def __init__(self, store: Store) -> None:
        self._store, self._at = store, 0

    def seek(self, at: int) -> None:
        self._at = at

    def read(self, size: int) -> bytes:
        text = self._store.read(self._at, size)
        self._at += len(text)
        return text


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("FIRST", 10), ("RANGE", 20), ("PAGE", 4), ("PAGES_KEPT", 3), ("DELAYS", (0.0, 0.0, 0.0))):
        monkeypatch.setattr(ranges, name, value)


DATA = bytes(range(256)) * 2


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("in_flight", [1, 8])
def test_bytes_come_in_order_whichever_request_is_answered_first(in_flight: int) -> None:
    store = Store(DATA, lambda _: time.sleep(random.uniform(0, 0.004)))
    with store.remote(in_flight).stream() as stream:
        assert stream.readall() == DATA
    # 10 bytes, then 502 by twenties: each byte is asked for once.
    assert len(store.spans) == 1 + 26
    assert sorted(store.spans) == [(0, 10), *((at, min(at + 20, 512)) for at in range(10, 512, 20))]
    assert store.most <= in_flight
    assert store.looks == 1


@pytest.mark.usefixtures("small")
def test_no_more_is_asked_for_than_may_be_in_flight_until_it_is_read() -> None:
    store = Store(DATA)
    with store.remote().stream() as stream:
        assert stream.read(4) == DATA[:4]
        time.sleep(0.05)
        assert store.spans == [(0, 10)]  # whoever looks at the beginning needs no more
        assert stream.read(6) == DATA[4:10]
        assert stream.read(1) == DATA[10:11]
        time.sleep(0.05)
        assert len(store.spans) == 1 + 8
        assert sum(end - begin for begin, end in store.spans) == 10 + 8 * 20


@pytest.mark.usefixtures("small")
def test_a_request_that_fails_is_tried_again() -> None:
    def trouble(number: int) -> None:
        if number in {2, 3, 5}:
            raise ConnectionResetError("cut")

    store = Store(DATA, trouble)
    with store.remote().stream() as stream:
        assert stream.readall() == DATA
    assert len(store.spans) == 1 + 26 + 3


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("error", "tries"), [(ConnectionResetError("cut"), 4), (PermissionError("no key"), 1)])
def test_what_fails_for_good_is_said_after_as_many_tries_as_may_help(error: Exception, tries: int) -> None:
    def trouble(_: int) -> None:
        raise error

    store = Store(DATA, trouble)
    with store.remote().stream() as stream, pytest.raises(InputError, match=str(error)):
        stream.read(4)
    assert len(store.spans) == tries


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("when", [1, 4, 20])
@pytest.mark.parametrize(
    ("before", "after", "size"),
    [
        ({"ETag": "a"}, {"ETag": "b"}, 512),
        ({"ETag": "a"}, {"ETag": "b"}, 600),
        ({"mtime": 1}, {"mtime": 2}, 512),
        ({}, {}, 300),
    ],
)
def test_an_object_that_is_written_anew_meanwhile_is_no_mixed_log(
    before: dict[str, Any], after: dict[str, Any], size: int, when: int
) -> None:
    def trouble(number: int) -> None:
        if number == when:
            store.data, store.said = bytes(size), after

    store = Store(DATA, trouble, **before)
    with (
        store.remote().stream() as stream,
        pytest.raises(InputError, match=r"^s3://x: changed while it was read: it ") as error,
    ):
        stream.readall()
    assert error.value.hint.startswith("Read it again")


@pytest.mark.usefixtures("small")
def test_a_piece_is_of_one_version_though_the_rest_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"".join(b"line %d\n" % k for k in range(100_000))
    store = Store(text, ETag="a")

    def trouble(number: int) -> None:
        store.said = {"ETag": "b"} if number == 2 else store.said

    monkeypatch.setattr(ranges, "RANGE", 1 << 18)
    monkeypatch.setattr(file_source, "open_remote", lambda _: store.remote())
    assert memlens.slice("s3://x", tmp_path / "piece", start="line 5", end="line 7").written_bytes == 14
    store.trouble = trouble
    store.spans.clear()
    with pytest.raises(InputError, match="changed while it was read"):
        memlens.slice("s3://x", tmp_path / "other", start="line 5", end="line 7")
    assert [path.name for path in tmp_path.iterdir()] == ["piece"]


@pytest.mark.usefixtures("small")
def test_a_log_that_grows_where_it_lies_is_read_up_to_its_end_when_the_reading_began() -> None:
    def trouble(number: int) -> None:
        store.data, store.said = store.data + b"more", {"mtime": number}

    store = Store(DATA, trouble, mtime=0)
    with store.remote().stream() as stream:
        assert stream.readall() == DATA


@pytest.mark.usefixtures("small")
def test_an_object_that_is_gone_is_said() -> None:
    store = Store(DATA)
    remote = store.remote()

    def gone() -> dict[str, Any]:
        raise FileNotFoundError("x")

    remote._look = gone
    with remote.stream() as stream, pytest.raises(InputError, match="changed while it was read: it is gone"):
        stream.readall()


@pytest.mark.usefixtures("small")
def test_fewer_bytes_than_there_are_is_an_error_and_no_shorter_log() -> None:
    store = Store(DATA)
    remote = store.remote()
    store.data = DATA[:100]
    remote._look = lambda: {"size": 512}  # and the store says that nothing changed
    with remote.stream() as stream, pytest.raises(InputError, match="10 bytes came of 20 at 90"):
        stream.readall()


@pytest.mark.usefixtures("small")
def test_spans_are_fetched_by_pages_and_those_near_each_other_together() -> None:
    store = Store(DATA)
    remote = store.remote()
    assert remote.parts([(5, 6), (17, 19), (100, 103), (511, 600), (7, 7), (600, 700)]) == [
        *(DATA[5:6], DATA[17:19], DATA[100:103], DATA[511:], b"", b"")
    ]
    # Pages of four bytes: of 5 and 17 the pages 1 and 4, with no more than four in between; of 100 the page 25; the last page.
    assert sorted(store.spans) == [(4, 20), (100, 104), (508, 512)]
    assert remote.parts([(100, 104), (510, 512)]) == [DATA[100:104], DATA[510:]]
    assert len(store.spans) == 3  # the last three pages are kept


def test_no_thread_stays_behind() -> None:
    before = {thread.ident for thread in threading.enumerate()}
    store = Store(DATA)
    remote = store.remote()
    with remote.stream() as stream:
        stream.readall()
    remote.parts([(0, 1)])
    until = time.monotonic() + 5
    while {thread.ident for thread in threading.enumerate()} - before and time.monotonic() < until:
        time.sleep(0.01)
    assert not {thread.ident for thread in threading.enumerate()} - before


_TEXTS = st.binary(min_size=1, max_size=80).map(lambda text: b"x" + text.replace(b"a", b"\n"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=_TEXTS, data=st.data())
def test_what_is_looked_up_is_as_in_the_whole_text(text: bytes, data: st.DataObject) -> None:
    """Any text and any sizes: lines, their numbers, spans and stretches of a remote log as those of a text in memory."""
    offsets = data.draw(st.lists(st.integers(-1, len(text) + 2), max_size=6))
    inside = [offset for offset in offsets if 0 <= offset < len(text)]
    indexed = [0, *(at + 1 for at, byte in enumerate(text) if byte == ord("\n") and data.draw(st.booleans()))]
    start, size = data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text))))
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((ranges, "FIRST"), (ranges, "RANGE"), (ranges, "PAGE"), (lookup, "_LOOK")):
            patch.setattr(module, name, data.draw(st.integers(1, 30)))
        patch.setattr(ranges, "PAGES_KEPT", data.draw(st.integers(0, 4)))
        patch.setattr(lookup, "_TOGETHER", data.draw(st.integers(1, 4)))
        patch.setattr(file_source, "_PIECE", data.draw(st.integers(1, 9)))
        patch.setattr(file_source, "_MANY_PIECES", data.draw(st.integers(1, 3)))
        patch.setattr(file_source, "open_remote", lambda _: Store(text).remote())
        source, whole = FileSource("s3://x/run.log"), MemorySource(text)
        with source.open() as stream:
            assert stream.read() == text
        source.index(np.array(indexed, np.int64), np.array([text.count(b"\n", 0, at) for at in indexed], np.int64))
        assert source.lines(offsets) == whole.lines(offsets)
        assert source.line_numbers(inside) == whole.line_numbers(inside)
        assert source.parts([(start, start + size)]) == whole.parts([(start, start + size)])
        pieces = list(source.blocks(start, start + size))
        wanted = list(whole.blocks(start, start + size)) if size and start < len(text) else []
        assert [at for at, _ in pieces] == [at for at, _ in wanted]
        assert b"".join(piece for _, piece in pieces).startswith(b"".join(piece for _, piece in wanted))
