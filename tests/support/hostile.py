"""Logs whose text tries to become markup or script, or to break what shows it: in owners, anchors, operators, messages, paths and stacks.

Whatever of it runs in a page sets ``window.ran``.
"""

from __future__ import annotations

import random
from pathlib import Path

from logs import LogText
from snapshots import FRAMES, Allocator, pickled, snapshot

_RUN = "window.ran=1"
#: None holds a line's end, for a line of a log cannot.
TEXTS = (
    f"</script><script>{_RUN}</script>",
    f"<img src=x onerror={_RUN}>",
    f"<svg/onload={_RUN}>",
    f"<!--<script>{_RUN}",
    "<style>*{display:none}</style><base href=//127.0.0.1:9/><meta http-equiv=refresh content=0;url=//127.0.0.1:9/>",
    "<iframe src=//127.0.0.1:9/></iframe><link rel=stylesheet href=//127.0.0.1:9/a.css><img src=//127.0.0.1:9/a.png>",
    f'" onmouseover="{_RUN}" autofocus onfocus="{_RUN}" x="',
    f"' onmouseover='{_RUN}' x='",
    f"`+({_RUN})+`",
    f"${{{_RUN}}}",
    f"{{{{ {_RUN} }}}}{{% raw %}}",
    f"\\'-({_RUN})-\\\"",
    f"]]>--><script>{_RUN}</script>",
    f"javascript:{_RUN}",
    f"</title></style></textarea></noscript></details></canvas></table><script>{_RUN}</script>",
    "&lt;b&gt;&amp;&#60;script&#62;",
    "\u202egnp.exe\u202c \u2066left\u2069 \u200f",
    "a\u2028b\u2029c\x85d",
    "nul\x00bell\x07escape\x1b[31mred\x1b[0m\x1b]8;;http://127.0.0.1:9/\x07link\x1b]8;;\x07",
    "=1+2 | `code` **bold** [a](javascript:alert(1)) # h",
    "__proto__",
    "constructor",
    "hasOwnProperty",
    "toString",
    "length",
    "\ufffe\uffff\ud7ff 😀 é漢",
    "long" * 2_500,
    "<b>" * 3_000,
)
#: A name that a file may have, of the text that can stand in one.
FILE_NAME = f"<img src=x onerror={_RUN}>\"'`${{{_RUN}}}&lt;\u202e\u2028__proto__.log"


def hostile_log(folder: Path) -> Path:
    """A log of Paddle in which each text is an anchor's, an owner's, an operator's and that of a failure's traceback.

    Step ``i`` allocates a block of ``(i + 1) * 4096`` bytes that stays, and one as large that is freed at once.  Cut it ``--by '^STEP (.*) START'``,
    with ``--owner 'OWNER (.*)'``.
    """
    log = LogText(line_us=7, date="0712")
    lines = log.lines
    address = 0x7F00_0000_0000
    for number, text in enumerate(TEXTS):
        size = (number + 1) * 4096
        lines.append(f"STEP {text} START")
        log.say(f"op name: {text}, dtype: float32, place: Place(gpu:0)", "interpreter_util.cc:917")
        for kept in (True, False):
            lines.append(f"OWNER {text} {kept}")
            address += 1 << 24
            log.chunk(size, address)
            log.alloc(size, address)
            if not kept:
                log.free(size, address)
    for text in TEXTS:
        lines += ["Traceback (most recent call last):", f'  File "{text}", line 7, in {text}', f"    {text}"]
        lines.append(
            "ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 98.000244MB memory on GPU 0, 6.000000GB memory has been"
            f" allocated and available memory is only 72.312500MB. {text}"
        )
    path = folder / FILE_NAME
    path.write_bytes(log.text.encode("utf-8", "surrogatepass"))
    return path


def hostile_snapshot(folder: Path) -> Path:
    """A snapshot in whose stacks and metadata each text is a file's and a function's name; with a failure in it."""
    allocator = Allocator(random.Random(1))
    for number, text in enumerate(TEXTS):
        allocator.metadata = text
        frames = [{"filename": text, "line": number, "name": text}, *FRAMES[:2]]
        allocator.stacks = [frames]
        for size in (number + 1 << 12, number + 1 << 10):
            allocator.alloc(size)
        allocator.free()
    allocator.record(
        "oom", 1 << 20, 1 << 40, [{"filename": TEXTS[0], "line": 1, "name": TEXTS[1]}], device_free=1 << 20
    )
    path = folder / f"{FILE_NAME}.pickle"
    path.write_bytes(pickled(snapshot([allocator])))
    return path
