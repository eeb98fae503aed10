r"""The header that glog writes before each message, ``I1120 10:22:32.856307 13292 file.cc:270] ``: its parts, as regular expressions.

Here alone is written what a header looks like; :data:`memlens.inputs.paddle.events.HEADER` is the whole of it as a line format.  The parts have
no groups of their own, so that each of them can stand in any expression.
"""

#: INFO, WARNING, ERROR or FATAL.
LEVEL = "[IWEF]"
#: glog 0.4 stamps month and day, later ones the year before them too.
YEAR, DAY = "[0-9]{4}", "[0-9]{4}"
#: Local time, up to the point, and all of it.
SECONDS = r"[0-9]{2}:[0-9]{2}:[0-9]{2}\."
CLOCK = SECONDS + "[0-9]{6}"
#: Level, day and time: what a header begins with.
STAMP = f"{LEVEL}(?:{YEAR})?{DAY} {CLOCK}"
#: The source file and its line, up to the bracket that ends them.
FILE, LINE = r"[^\s:\]]+", r"[0-9]+\]"
