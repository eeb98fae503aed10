"""Out-of-memory messages, and lines with the framework's own figures, of the releases of Paddle and its trainers, as line formats."""

from __future__ import annotations

import re

from memlens.scanner.formats import LineFormat

#: What a reader looks for: a line that holds none of these holds no figure.  Each, and the literal of each format of an out-of-memory message,
#: begins with a comma or with one of the letters A, F, G, N and O, so that a scan of all bytes has few places to look at.
LITERALS: tuple[bytes, ...] = (
    b', "allocated',
    b', "reserved',
    b", Allocated = ",
    b"After launching op_name",
    b", max_mem",
    b", current_memory_",
    b"FO: Epoch: [",  # of ``INFO: Epoch: [0] [ 100/827] … max_mem_reserved: …``: some trainers put no commas
)

#: Of these a log may have one for every operator that runs; a reader may take samples of them.
FREQUENT = frozenset({b"After launching op_name"})

_SIZE = r"\d{1,15}(?:\.\d{1,20})?[kKMGTP]?B"
_DEVICE = r"[A-Za-z][\w/-]{0,30}(?: [A-Za-z]{1,20}){0,3} \d{1,5}"
_KEY = r"(?P<key>(?:max_|current_)?mem(?:ory)?_(?:allocated|reserved))"
_VALUE = r"(?P<value>\d{1,19}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,3})?)"

_MEANS_OOM = {
    "device": "the device that is full",
    "requested": "what was asked for",
    "free": "what was left on the device, by all processes",
    "used": "what was in use on the device, by all processes; with a limit set, what counts against it",
    "total": "what the device has",
    "limit": "what the run may use of the device",
}

#: Out-of-memory messages, of which a line is one at most: of the first format that it matches.  Where a message has several lines, its figures are on
#: the line of the format.
OUT_OF_MEMORY: tuple[LineFormat, ...] = (
    LineFormat(
        "oom",
        "cuda",
        b"Out of memory error on ",
        rf"Out of memory error on (?P<device>{_DEVICE})\. Cannot allocate (?P<requested>{_SIZE}) (?:GPU )?memory"
        rf"(?:[^\n]{{0,60}}?, (?P<used>{_SIZE}) memory has been allocated)?"
        rf"(?:[^\n]{{0,300}}?available memory is (?:only )?(?P<free>{_SIZE}))?",
        {key: _MEANS_OOM[key] for key in ("device", "requested", "used", "free")},
        samples=(
            (
                "Out of memory error on <device=GPU 0>. Cannot allocate <requested=3.125000GB> memory on GPU 0, available"
                " memory is only <free=117.750000MB>."
            ),
            (
                "Out of memory error on <device=GPU 0>. Cannot allocate <requested=98.000244MB> memory on GPU 0,"
                " <used=6.000000GB> memory has been allocated and available memory is only <free=0.000000B>."
            ),
            (
                "Out of memory error on <device=GPU 3>. Cannot allocate <requested=4.000000GB> memory on GPU 3,"
                " <used=77.415039GB> memory has been allocated(actual using allocated memory 73.000000GB) and available"
                " memory is only <free=1.735962GB>."
            ),
            "Out of memory error on <device=GPU 1>. Cannot allocate <requested=2.000000GB> memory.<used!><free!>",
            (
                "Out of memory error on <device=GPU Virtual Memory 0>. Cannot allocate <requested=1.500000kB> memory on GPU"
                " Virtual Memory 0, 6.000000GB memory has been allocated and available memory is only <free=512.000000KB>."
            ),
            (
                "Out of memory error on <device=GPU 0>. Cannot allocate <requested=145.468994MB> GPU memory, available"
                " memory is <free=72.312500MB>."
            ),
        ),
        traps=("Out of memory error on purpose in this test. Cannot allocate anything", "RuntimeError: out of memory"),
    ),
    LineFormat(
        "oom_custom_device",
        "custom_device",
        b"Out of memory error on ",
        rf"Out of memory error on (?P<device>{_DEVICE})\. total memory is (?P<total>{_SIZE}), used memory is {_SIZE},"
        rf" available memory is only (?P<free>{_SIZE})",
        {key: _MEANS_OOM[key] for key in ("device", "total", "free")},
        samples=(
            (
                "Out of memory error on <device=npu 0>. total memory is <total=32.000000GB>, used memory is 31.500000GB,"
                " available memory is only <free=512.000000MB>."
            ),
        ),
        traps=("npu 0. total memory is 32.000000GB, used memory is 31.500000GB",),
    ),
    LineFormat(
        "oom_naive_best_fit",
        "naive_best_fit",
        b", available ",
        rf"Cannot allocate (?P<requested>{_SIZE}) in (?P<device>{_DEVICE}), available (?P<free>{_SIZE}), total (?P<total>{_SIZE})",
        {key: _MEANS_OOM[key] for key in ("device", "requested", "free", "total")},
        samples=(
            (
                "Cannot allocate <requested=1.000000GB> in <device=GPU 0>, available <free=200.000000MB>, total"
                " <total=16.000000GB>, GpuMinChunkSize 256.000000B, GpuMaxChunkSize 14.000000GB, GPU memory used:"
                " 15.000000GB."
            ),
        ),
        traps=("cudaHostAlloc Cannot allocate 4096 bytes in CUDAPinnedPlace",),
    ),
    LineFormat(
        "oom_after_release",
        "stream_safe",
        b"Allocation of ",
        r"Allocation of (?P<requested>\d{1,15}) bytes failed after releasing memory from all streams",
        {"requested": "what was asked for, in bytes"},
        samples=("Allocation of <requested=4294967296> bytes failed after releasing memory from all streams.",),
        traps=("Allocation of 4294967296 bytes took 3 ms",),
    ),
    LineFormat(
        "allocation_failed",
        "stream_safe",
        b"Allocation failed ",
        r"Allocation failed (?:when|because of timeout when) (?:retrying \d{1,9} times when )?allocating (?P<requested>\d{1,15}) bytes",
        {"requested": "what was asked for, in bytes; a retry may still have found it"},
        samples=(
            (
                "I1120 10:22:33.002323 13292 stream_safe_cuda_allocator.cc:224] Allocation failed when allocating"
                " <requested=4096> bytes"
            ),
            (
                "I1120 10:22:33.002323 13292 retry_allocator.cc:40] Allocation failed when allocating <requested=512> bytes,"
                " waited_allocate_size_ = 0"
            ),
            "Allocation failed when retrying 2 times when allocating <requested=512> bytes. Wait still.",
            "Allocation failed because of timeout when allocating <requested=512> bytes.",
        ),
        traps=(
            "Free 512 bytes and notify all waited threads, where waited_allocate_size_ = 512",
            "Allocation failed: quota",
        ),
    ),
    LineFormat(
        "custom_device_error",
        "custom_device",
        b", the error code is",
        r"CustomDevice error, the error code is : (?P<code>2)\b",
        {"code": "2: the device refused the call, as it does when it has no memory left"},
        samples=(
            (
                "OSError: (External)  CustomDevice error, the error code is : <code=2>.  (at"
                " /paddle/paddle/phi/backends/custom/custom_device.cc:387)"
            ),
        ),
        traps=("OSError: (External)  CustomDevice error, the error code is : 24.", "the error code is : 2."),
    ),
    LineFormat(
        "oom_limit",
        "cuda",
        b"FLAGS_gpu_memory_limit_mb` is ",
        r"Currently `FLAGS_gpu_memory_limit_mb` is \d{1,9}, so the maximum GPU memory usage is limited to (?P<limit>\d{1,9} MB)",
        {"limit": _MEANS_OOM["limit"]},
        samples=(
            (
                "2. If no, please decrease the batch size of your model. Or set environment variable"
                " `FLAGS_gpu_memory_limit_mb` to a larger value. Currently `FLAGS_gpu_memory_limit_mb` is 60, so the maximum"
                " GPU memory usage is limited to <limit=60 MB>."
            ),
        ),
        traps=("Currently `FLAGS_gpu_memory_limit_mb` is 0", "set `FLAGS_gpu_memory_limit_mb` is 60 enough?"),
    ),
)


def _begun(text: str, then: str = "") -> str:
    """A pattern for any beginning of a text, also none; and for all of it with another pattern after it."""
    pattern = then
    for letter in reversed(text):
        pattern = f"(?:{re.escape(letter)}{pattern})?"
    return pattern


_SIZE_BEGUN = _begun("Cannot allocate ", r"[\d.]{0,36}[kKMGTP]?(?:B[ GPUmemory]{0,11})?")
_TOTAL_BEGUN = _begun("total memory is ", r"[^\n]{0,200}")
#: What follows "on" of the line with the figures, cut anywhere.
_CUT_FIGURES = _DEVICE + _begun(". ", f"(?:{_SIZE_BEGUN}|{_TOTAL_BEGUN})")
_CUT_LINE = _begun("Out of memory error on ", rf"(?:{_CUT_FIGURES}|[A-Za-z][\w/ -]{{0,60}})?")

#: One of these stands in the end of a log that was cut in the middle of a message,
CUT_OFF_NAMES = (b"ResourceExhaustedError", b"Out of memory error on ")
#: which is the error itself, or the line below it that has the figures.
CUT_OFF = LineFormat(
    "oom_cut_off",
    "enforce",
    b"",
    rf"(?m:^)(?:(?P<error>ResourceExhaustedError)(?::\s*{_CUT_LINE})?|(?P<line>Out of memory error on {_CUT_FIGURES}))\s*\Z",
    {"error": "the name of the error", "line": "the line with the figures, where the error is not named"},
    samples=(
        "ResourceExhaustedError",
        "ResourceExhaustedError: ",
        "ResourceExhaustedError: \n\nOut of mem",
        "ResourceExhaustedError: \n\nOut of memory error on GPU Vir",
        "ResourceExhaustedError: \n\nOut of memory error on GPU 0. Cann",
        "\nOut of memory error on GPU 0. Cannot allocate 50.000000",
        "Out of memory error on npu 0. total memory is 32.000000GB, used",
    ),
    traps=(
        "except ResourceExhaustedError:",
        "MyResourceExhaustedError: ",
        "ResourceExhaustedError: caught, the batch is halved",
        "ResourceExhaustedError: \nSTEP 4 START",
        "if you see an Out of memory error on GPU 0",
        "Out of memory error on purpose",
        "Out of memory error on GPU 0. Lower the batch size",
        "Out of memory error on GPU 0. Cannot allocate 50.0\nSTEP 4 START",
    ),
)
#: The device in such an end.
DEVICE = rf"Out of memory error on ({_DEVICE})\.".encode()

_MEANS_KEY = {
    "key": "what the figure is of: max_… is a peak, the others are the level at this line",
    "value": "the figure",
}

USAGE_MB = LineFormat(
    "memory_usage_mb",
    "exit",
    b"[Memory Usage (MB)] ",
    r"\[Memory Usage \(MB\)\] \S{1,30} (?P<device>\d{1,4}) : Reserved = (?P<reserved>[\d.e+]{1,20}), Allocated = (?P<allocated>[\d.e+]{1,20})",
    {
        "device": "device id",
        "reserved": "peak, MiB, 6 significant digits",
        "allocated": "peak, MiB, 6 significant digits",
    },
    samples=("[Memory Usage (MB)] gpu <device=0> : Reserved = <reserved=2266.72>, Allocated = <allocated=2237.15>",),
    traps=("[Memory Usage (Byte)] gpu 0 : Reserved = 2266, Allocated = 2237",),
)

USAGE_BYTE = LineFormat(
    "memory_usage_byte",
    "exit",
    b"[Memory Usage (Byte)] ",
    r"\[Memory Usage \(Byte\)\] \S{1,30} (?P<device>\d{1,4}) : Reserved = (?P<reserved>\d{1,19}), Allocated = (?P<allocated>\d{1,19})",
    {"device": "device id", "reserved": "peak, bytes", "allocated": "peak, bytes"},
    samples=("[Memory Usage (Byte)] gpu <device=1> : Reserved = <reserved=6403840>, Allocated = <allocated=4467968>",),
    traps=("[Memory Usage (MB)] gpu 0 : Reserved = 2266.72, Allocated = 2237.15",),
)

OP_MEMORY = LineFormat(
    "op_memory",
    "stats",
    b"After launching op_name: ",
    rf"(?<=, ){_KEY}: {_VALUE} MB",
    _MEANS_KEY,
    samples=(
        (
            "I1120 10:22:33.002323 13292 stats.cc:30] After launching op_name: matmul, <key=memory_allocated>:"
            " <value=1.22778> MB, memory_reserved: 5.10718 MB, max_memory_allocated: 3.47632 MB, max_memory_reserved:"
            " 5.10718 MB"
        ),
    ),
    traps=("After launching op_name: matmul", ", memory_allocated: 1.22778 MB"),
)

EXECUTOR_MEMORY = LineFormat(
    "executor_memory",
    "executor",
    b"memory_allocated: ",
    r"\] (?P<key>(?:max_)?memory_allocated): (?P<value>[\d.e+]{1,20}) MB",
    _MEANS_KEY,
    samples=(
        "I1120 10:22:33.002323 13292 interpreter_util.cc:61] <key=memory_allocated>: <value=1.22778> MB",
        "I1120 10:22:33.002324 13292 interpreter_util.cc:62] max_memory_allocated: <value=4.26099> MB",
    ),
    traps=("loss: 0.5, max_memory_allocated: 4.26 MB",),
)

TRAINER = LineFormat(
    "trainer",
    "trainer",
    b"mem",
    rf"(?<![A-Za-z0-9_\"']){_KEY}:\s{{0,3}}{_VALUE}(?!\.?\d)(?:\s?(?P<unit>[KMGT]i?B|B)(?![A-Za-z])|(?!\s?[KMGT%]|[\w]))",
    _MEANS_KEY
    | {"unit": "B, or none: bytes; integers in MB are rounded down; others are rounded to the digits printed"},
    samples=(
        (
            "[2024/10/10 23:55:07] ppocr INFO: epoch: [34/200], global_step: 12960, lr: 0.000950, ips: 54.23617"
            " samples/s, eta: 1:03:00, <key=max_mem_reserved>: <value=11296> <unit=MB>, max_mem_allocated: 11077 MB"
        ),
        (
            "[2023-11-21 13:28:00,207] [    INFO] - step_idx: 600, ips: 31763.60242 words/sec, <key=max_mem_reserved>:"
            " <value=6720385536> <unit=B>, max_mem_allocated: 5045607168 B"
        ),
        (
            "[05/04 10:20:46] ppdet.engine INFO: Epoch: [0] [ 100/827] ips: 18.1718 images/s <key=max_mem_reserved>:"
            " <value=11613581568> max_mem_allocated: 10151881472<unit!>"
        ),
        (
            "loss: 1.78, global_step: 5, <key=current_memory_allocated>: <value=13.63> <unit=GB>, max_memory_reserved:"
            " 20.5 GB"
        ),
        "loss: 1.78, max_memory_allocated: <value=7.15e-01><unit!>",
        "Epoch: [0] [   0/6250] <key=mem_allocated>: <value=1021> <unit=MB> mem_reserved: 3496 MB",
    ),
    traps=(
        "my_max_mem_reserved: 11296 MB",
        "max_mem_reserved: 11296 Mbit",
        "max_mem_reserved: none",
        "max_mem_reserved: 1.2.3",
    ),
)

JSON = LineFormat(
    "memory_json",
    "script",
    b'"allocated": ',
    r'"(?P<key>allocated|allocated_peak|reserved|reserved_peak)": (?P<value>\d{1,19})(?=\s{0,3}[,}])',
    {"key": "what the figure is of", "value": "bytes, exact"},
    samples=(
        (
            'MEMSTAT {"<key=allocated>": <value=1287424>, "allocated_peak": 3645184, "reserved": 5355264,'
            ' "reserved_peak": 5355264}'
        ),
    ),
    traps=('{"allocated": "1287424"}', '{"allocated": 12.5, "reserved": 13.5}'),
)

#: Lines in which the framework, or the script by the framework's own functions, prints how much memory it holds.
FIGURES: tuple[LineFormat, ...] = (USAGE_MB, USAGE_BYTE, OP_MEMORY, EXECUTOR_MEMORY, TRAINER, JSON)

FORMATS: tuple[LineFormat, ...] = OUT_OF_MEMORY + FIGURES
