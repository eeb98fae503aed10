"""The module that Python runs before a program that ``memlens record`` started: its folder is put first on the program's ``PYTHONPATH``.

It starts what the variable ``MEMLENS_RECORD`` asks for, and then runs the sitecustomize that Python would have found without it; what that
one raises is Python's to report, as always.  Nothing here may fail the program, and nothing needs memlens, which the program's environment
may not have.  ``python -I``, ``-E`` and ``-S`` do not load it: then nothing is started.

Any Python that the program runs comes by here, and so this is written in what Python 2.7 reads; what is started needs 3.8.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))

sys.path[:] = [folder for folder in sys.path if folder != _HERE]
if sys.version_info >= (3, 8) and os.environ.get("MEMLENS_RECORD"):
    try:
        import json
        from importlib.machinery import SourceFileLoader

        _path = os.path.join(os.path.dirname(_HERE), "inside", "imports.py")
        _imports = type(sys)("_memlens_imports")
        _imports.__file__ = _path
        SourceFileLoader("_memlens_imports", _path).exec_module(_imports)
        _imports.start(json.loads(os.environ["MEMLENS_RECORD"]))
    except Exception as _error:  # noqa: BLE001  the program goes on whatever is wrong here
        if sys.stderr is not None:
            _words = ["memlens: not recording in this process", type(_error).__name__, str(_error)]
            sys.stderr.write(": ".join(_words) + "\n")

# The import system takes the module that stands under the name in the end; where there is no other, it raises what says so.
sys.modules.pop("sitecustomize", None)
import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401
