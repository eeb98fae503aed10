"""What Python runs before a program that ``memlens record`` started: its folder is put first on the program's ``PYTHONPATH``.

It starts what the variable ``MEMLENS_RECORD`` asks for, and then runs the sitecustomize that Python would have found without it; what that
one raises is Python's to report, as always.  Nothing here may fail the program, and nothing needs memlens, which the program's environment
may not have.  ``python -I``, ``-E`` and ``-S`` do not load it: then nothing is started.
"""

from __future__ import annotations

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))

#: What may be asked for: its key in the variable, and the module in ``inside/`` whose ``start`` takes its value, which is not null.
_MODULES = {"socket": "ranks", "torch": "torch_history"}


def _start() -> None:
    """Start what is asked for; what cannot be is one line on stderr."""
    if not (asked := os.environ.get("MEMLENS_RECORD")):
        return
    try:
        import json
        from importlib.machinery import SourceFileLoader

        values = json.loads(asked)
        for key, name in _MODULES.items():
            if values.get(key) is not None:
                path = os.path.join(os.path.dirname(_HERE), "inside", f"{name}.py")
                module = type(sys)(f"_memlens_{name}")
                module.__file__ = path
                SourceFileLoader(module.__name__, path).exec_module(module)
                module.start(values[key])
    except Exception as error:  # noqa: BLE001  the program goes on whatever is wrong here
        if sys.stderr is not None:
            sys.stderr.write(f"memlens: not recording in this process: {type(error).__name__}: {error}\n")


sys.path[:] = [folder for folder in sys.path if folder != _HERE]
_start()
# The import system takes the module that stands under the name in the end; where there is no other, it raises what says so.
sys.modules.pop("sitecustomize", None)
import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401
