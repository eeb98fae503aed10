"""``python -m memlens`` is ``memlens``."""

from __future__ import annotations

import sys

from memlens.cli import main

if __name__ == "__main__":
    sys.exit(main())
