"""Files that memlens does not read, told by what they begin with, each with the way to something that it reads.

A row of :data:`UNREAD` is a signature, what has it, and what to do.  Rows are tried from the first to the last.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from memlens.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Unread(NamedTuple):
    """A kind of file that memlens does not read.

    Attributes:
        title: What messages call it, with its article.
        signature: A regular expression that the first bytes of such a file match, uncompressed; of text without white space before
            it, and in any case.
        way: How to get something that memlens reads.
        text: It consists of lines of text, in which events may stand all the same: it is called so only where none was found.
    """

    title: str
    signature: bytes
    way: str
    text: bool = False

    def matches(self, head: bytes) -> bool:
        """Whether an input that begins with these bytes looks like one."""
        flags = re.DOTALL
        if self.text:
            head, flags = head.removeprefix(b"\xef\xbb\xbf").lstrip(), flags | re.IGNORECASE
        return re.match(self.signature, head, flags) is not None  # compiled when it is first needed


_TORCH = """\
Of PyTorch, memlens reads memory snapshots and traces of the profiler:
    torch.cuda.memory._record_memory_history()  # before the first tensor
    torch.cuda.memory._dump_snapshot('run.pickle')  # at the end
or, on any device, torch.profiler.profile(profile_memory=True, with_stack=True)
and then prof.export_chrome_trace('run.json')."""
_RECORD = f"""\
memlens reads what allocators of devices record: memlens formats lists it.
{_TORCH}
Any other log of text: describe its lines as a format of your own, [[format]]."""
_HOST = f"It tells of memory of the host. {_RECORD}"
_UNPACK = "Unpack it, and give memlens the log, the snapshot or the trace that is in it."
_TENSORS = f"It holds tensors, and not when they were allocated.\n{_TORCH}"
#: From events of Nsight Systems to rows as RMM writes them; the tables are those that nsys export makes.
NSYS_QUERY = """\
SELECT printf('0,%s.%06d,%s,0x%x,%d,0', time(start/1000000000, 'unixepoch'),
    start/1000%1000000, CASE memoryOperationType WHEN 0 THEN 'allocate' ELSE 'free' END,
    address, bytes)
  FROM CUDA_GPU_MEMORY_USAGE_EVENTS WHERE memKind = 2 AND deviceId = 0 ORDER BY start"""
_NSYS = f"""\
Recorded with nsys profile --cuda-memory-usage=true it has what the driver gave and
took back (chunks, where the framework keeps a cache). As rows that memlens reads:
    sqlite3 report.sqlite "{NSYS_QUERY}" > report.csv
{_TORCH}"""


#: Text of anything but Paddle, up to a word in it.
_LOG = rb"(?!.*paddle)(?![^\n]{0,99}[\x01-\x06\x0e-\x1a]).*"
#: A zip archive whose first member has a name that goes on so.
_ZIP = rb"PK\x03\x04.{26}[^\0]{0,200}?"
#: What holds no line of a log, whatever comes later in it.
BINARY: tuple[Unread, ...] = (
    # memray packs its captures with LZ4, in which text at the beginning stands as it is.
    Unread(
        "a capture of memray",
        rb"memray\0|\x04\x22\x4d\x18.{7,24}memray\0",
        "memray parse FILE > run.txt writes its records as text; docs/formats.md describes their lines"
        f" as a format of your own. {_HOST}",
    ),
    Unread("an archive of torch.save", _ZIP + rb"/(?:data\.pkl|constants\.pkl|\.data/|code/|version|byteorder)", _TENSORS),
    Unread("a file of torch.save, as before 1.6", rb"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\.", _TENSORS),
    Unread("a zip archive", rb"PK(?:\x03\x04|\x05\x06)", _UNPACK),
    Unread("an archive of 7-Zip or RAR", rb"7z\xbc\xaf\x27\x1c|Rar!\x1a\x07", _UNPACK),
    Unread("compressed with LZ4, Snappy or compress", rb"\x04\x22\x4d\x18|\xff\x06\0\0sNaPpY|\x1f[\x9d\xa0]",
         "Uncompress it (lz4 -d, snzip -d, uncompress); memlens reads gzip, zstd, xz and bzip2 as they are."),
    Unread("compressed twice", rb"\x1f\x8b\x08|\x28\xb5\x2f\xfd|\xfd7zXZ\0|BZh[1-9]1AY",
         "Uncompress it once; memlens uncompresses the other."),
    Unread("a snapshot of tracemalloc", rb"\x80[\x00-\x05].{0,40}?tracemalloc", _HOST),
    Unread("an SQLite database of Nsight Systems", rb"SQLite format 3\0.*(?:CUPTI_ACTIVITY_|TARGET_INFO_|CUDA_GPU_)", _NSYS),
    Unread("an SQLite database", rb"SQLite format 3\0", _RECORD),
    Unread(
        "a profile of pprof",
        rb"\x0a\x04\x08[\x01-\x7f]\x10[\x01-\x7f][\x0a\x12]",
        "It has sums by call stack (jax.profiler.save_device_memory_profile, Go, gperftools), and no single"
        f" allocation.\n{_RECORD}",
    ),
    Unread("a profile of XLA or TensorFlow (.xplane.pb)", rb"\x0a.{1,24}?\x12.(?:/host:|/device:|Task Environment)", _RECORD),
    Unread("text in UTF-16, as > of PowerShell writes it", rb"\xff\xfe|\xfe\xff|(?:[\t\n\r -~]\0){16}|(?:\0[\t\n\r -~]){16}",
         "Write it as UTF-8: iconv -f UTF-16 -t UTF-8 FILE > run.log"),
)  # fmt: skip
#: These are pickles too, but only what no snapshot begins with.
_PICKLE = Unread(
    "a pickle of something else than a memory snapshot",
    rb"\x80[\x00-\x05]|\((?:dp|lp)[0-9]*\n|c(?:copy_?reg|__builtin__|builtins|collections|numpy[\w.]*|torch[\w.]*)\n",
    _TORCH,
)
_RMM_2019 = Unread(
    "a log of RMM's interface of 2019",
    rb"\s*Event Type,Device ID,Address,Stream,Size \(bytes\)",
    "Record it with RMM 0.13 or newer.",
)
#: Read as Kineto traces; where that finds no event it may be that another tool wrote them.
TRACES: tuple[Unread, ...] = (
    Unread(
        "a trace of another tool, in the form of Chrome's",
        rb'(?!.*"(?:schemaVersion|deviceProperties|baseTimeNanoseconds|Ev Idx|External id)")[\[{].*"ph"\s*:',
        f"It has no event of an allocator.\n{_TORCH}",
        text=True,
    ),
)
_TEXT: tuple[Unread, ...] = (
    # A tar archive of logs is no log, but where events are found in it they are shown.
    Unread("a tar archive", rb".{257}ustar", _UNPACK, text=True),
    Unread("a pointer of Git LFS, and not the file", rb"version https://git-lfs", "Fetch the file: git lfs pull", text=True),
    Unread("a page of PyTorch's memory viewer", rb"<(?:!doctype|html|script|head).*memory_?viz",
         "Give memlens the snapshot that it was made from, which _dump_snapshot wrote.", text=True),
    Unread("a page of HTML", rb"<(?:!doctype html|html|head)", _RECORD, text=True),
    Unread("output of nvidia-smi", rb"(?:<\?xml.{0,200}<nvidia_smi_log|# ?gpu\s"
         rb"|(?!.*paddle)(?:[^\n]{0,99}\n){0,3}\W*NVIDIA-SMI|[^\n]{0,300}\b(?:memory\.(?:used|total|free)|utilization\.gpu))",
         f"It has totals by process or device, and no single allocation.\n{_RECORD}", text=True),
    Unread("a baseline of memlens", rb'\{\s*"schema":\s*"memlens\.baseline', "Judge a log by it: memlens gate RUN.log --baseline FILE", text=True),
    Unread("a result of memlens", rb'\{\s*"schema":\s*"memlens\.', "Give memlens the log that it was made from.", text=True),
    Unread("a memory snapshot of PyTorch as JSON", rb'\{.{0,400}?"(?:device_traces|segments)"\s*:\s*\[',
         f"memlens reads the pickle, which has it all.\n{_TORCH}", text=True),
    Unread("a memory timeline of torch.profiler", rb"\[\s*\[\s*-?[0-9.]+\s*,",
         f"It has sums by category. Write the trace itself: prof.export_chrome_trace('run.json').\n{_TORCH}", text=True),
    Unread("a memory profile of TensorFlow", rb'\{.*"memoryProfilePerAllocator"', _RECORD, text=True),
    *TRACES,
    # Lines of JSON as containers write them are a log like any other.
    Unread("JSON", rb'(?!\{"(?:log|message|msg|time|level|ts)")(?:\{\s*(?:"|\})|\[\s*(?:\{|"|\]))', _RECORD, text=True),
    Unread("a profile of the heap (gperftools, jemalloc, Massif, Heaptrack, mprof)",
         rb"heap profile:|heap_v2/|desc: -|v [0-9a-f]{4,6} [0-9a-f]+\n|CMDLINE [^\n]*\nMEM ", _HOST, text=True),
    Unread("a summary of PyTorch's memory", rb"[|=\s-]{0,200}PyTorch CUDA memory summary",
         f"It has sums, and no single allocation.\n{_TORCH}", text=True),
    Unread("a table of comma-separated values (CSV)", rb'(?:[a-z_][\w .%\[\]()/-]*|"[^"\n]*"|)(?:,[ \t]*(?:[a-z_][\w .%\[\]()/-]*|"[^"\n]*"|)){2,}\r?\n'
         rb"(?=[^\n]*[0-9])[^\n,]*(?:,[^\n,]*){2,}",
         f"Rows of RMM have a header like Thread,Time,Action,Pointer,Size,Stream.\n{_RECORD}", text=True),
    Unread("a log of PyTorch without events of its allocator",
         _LOG + rb"(?:\btorch\b|\bpytorch\b|CUDA out of memory\. Tried to allocate)", _TORCH, text=True),
    Unread("a log of TensorFlow or JAX without events of an allocator", _LOG + rb"(?:\btensorflow\b|\bjaxlib\b|\bjax\._src\b)", _RECORD, text=True),
)  # fmt: skip
#: No signature: bytes that no text has.  (NUL is not among them: a log that was truncated while it was written has holes.)
_OTHER_BINARY = Unread(
    "a binary file of a kind that memlens does not know",
    rb".*[\x01-\x06\x0e-\x1a\x1c-\x1f]",
    "A report of Nsight Systems (.nsys-rep): nsys export --type sqlite FILE writes a database;"
    f" give memlens that, and it says how to go on.\n{_RECORD}",
    text=True,
)
#: All of them.
UNREAD: tuple[Unread, ...] = (*BINARY, _PICKLE, _RMM_2019, *_TEXT, _OTHER_BINARY)


def unread_kind(head: bytes, kinds: Sequence[Unread] = UNREAD) -> Unread | None:
    """Name the kind of an input that memlens does not read; ``None`` where it looks like a log.

    Args:
        head: Its first bytes, uncompressed.
        kinds: The kinds to try, in their order.
    """
    return next((kind for kind in kinds if kind.matches(head)), None)


def refuse_unread(name: str, kind: Unread) -> None:
    """Refuse an input that cannot hold a line of a log.

    Raises:
        InputError: It is of such a kind.
    """
    if not kind.text:
        raise InputError(f"{name}: is {kind.title}, which memlens does not read", kind.way)
