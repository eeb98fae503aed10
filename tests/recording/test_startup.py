"""What runs before a recorded program: it starts what is asked for, and then what Python would have run without it."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from night import some
from pythons import VERSIONS, python_of
from torch_programs import STARTUP

from memlens.recording.inside import walks

ELSEWHERE = Path(__file__).parents[1] / "support" / "elsewhere.py"

SHOWS = "import sys; print('sitecustomize' in sys.modules, any(folder.endswith('startup') for folder in sys.path))"
#: What the next sitecustomize may do: run, fail, lack a module, or end Python.
NEXT = {
    "none": None,
    "runs": "import sys; print('next runs', __file__, __name__, 'sitecustomize' in sys.modules)",
    "fails": "print('begun'); 1 / 0",
    "lacks a module": "import nonesuch",
    "lacks one of its own name": "raise ModuleNotFoundError('no', name='sitecustomize')",
    "is no Python": "def",
    "ends": "raise SystemExit(3)",
}


def run(program: str, *options: str, path: list[Path], **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MEMLENS"))}
    return subprocess.run(
        [sys.executable, *options, "-c", program],
        env={**kept, "PYTHONPATH": os.pathsep.join(map(str, path)), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("text", NEXT.values(), ids=NEXT)
def test_the_next_sitecustomize_does_what_it_does_without_this_one(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "sitecustomize.py").write_text(text)
    alone = run(SHOWS, path=[tmp_path])
    after = run(SHOWS, path=[STARTUP, tmp_path])
    assert (after.returncode, after.stdout) == (alone.returncode, alone.stdout)
    assert after.stderr.splitlines()[-3:] == alone.stderr.splitlines()[-3:]


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_it_is_not_loaded_where_python_looks_at_no_environment(option: str) -> None:
    done = run("print('runs')", option, path=[STARTUP], MEMLENS_RECORD="{")
    assert (done.returncode, done.stdout, done.stderr) == (0, "runs\n", "")


@pytest.mark.parametrize(
    "asked", ["{", "[]", '{"torch": {}}', '{"torch": 3}', '{"torch": {"output": 3}}', '{"paddle": {"of": "paddle"}}']
)
def test_what_cannot_be_started_is_one_line_and_the_program_runs(asked: str) -> None:
    done = run("print('runs')", path=[STARTUP], MEMLENS_RECORD=asked)
    assert (done.returncode, done.stdout) == (0, "runs\n")
    assert done.stderr.startswith("memlens: not recording in this process: ")
    assert len(done.stderr.splitlines()) == 1


def test_what_runs_in_the_program_imports_nothing_but_the_standard_library() -> None:
    """Python names the modules that it has of its own; nothing of memlens is on the path here."""
    shown = "import sys; print(*{name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names)"
    alone = run(shown, path=[])
    done = run(shown, path=[STARTUP], MEMLENS_RECORD='{"torch": {"output": "run.pickle"}}')
    added = set(done.stdout.split()) - set(alone.stdout.split())
    assert done.stderr == ""
    assert added == {"_memlens"}  # memlens's own, beside the start-up folder


@pytest.mark.parametrize(
    "asked", ['{"socket": {"path": "/nowhere", "marks": {}}}', '{"torch": {"output": "run.pickle"}}']
)
def test_a_process_that_is_no_rank_loads_little(asked: str) -> None:
    """What is slow to import, and used by ranks alone or by nobody."""
    shown = (
        "import sys; print({'socket', 'struct', 'typing', 'subprocess', 'tempfile', 'inspect'} & sys.modules.keys())"
    )
    assert run(shown, path=[]).stdout == "set()\n"
    assert run(shown, path=[STARTUP], MEMLENS_RECORD=asked).stdout == "set()\n"


def test_what_every_python_comes_by_is_read_by_all_of_them() -> None:
    """An error of syntax would be said by each process, and keep it from its own sitecustomize: of what came after Python 2.7 there is nothing."""
    text = (STARTUP / "sitecustomize.py").read_text()
    later = (
        ast.JoinedStr,
        ast.NamedExpr,
        ast.AnnAssign,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
        ast.Nonlocal,
        ast.Starred,
    )
    nodes = list(ast.walk(ast.parse(text)))
    assert text.isascii()
    assert not [ast.unparse(node) for node in nodes if isinstance(node, later)]
    assert "__future__" not in text


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.7", *VERSIONS])
def test_other_pythons_run_their_own_sitecustomize(tmp_path: Path, version: str) -> None:
    python = python_of(version)
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.stderr.write('next\\n')")
    path = os.pathsep.join(map(str, [STARTUP, tmp_path]))
    asked = '{"socket": {"path": "/nowhere", "marks": {}}, "torch": {"output": "run.pickle"}}'
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": path,
        "MEMLENS_RECORD": asked,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run([python, "-c", "print(1)"], env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("1\n", "next\n")


@pytest.mark.changed("recording")
@pytest.mark.parametrize("version", some(VERSIONS, 4))
def test_other_pythons_walk_as_this_one_does(version: str) -> None:
    """All tests of holders pass there."""
    paths = ELSEWHERE, STARTUP.parent / "inside" / "holders.py", Path(__file__).parent / "test_holders.py"
    done = subprocess.run(
        [python_of(version), *map(str, paths)], capture_output=True, text=True, timeout=120, check=False
    )
    assert re.search(r"^[1-9]\d* ran, 0 failed$", done.stdout, re.MULTILINE), done.stdout + done.stderr


FILES = {
    "/home/me/my-packages/train.py": "train.py",
    "<stdin>": "<stdin>",
    "/home/me/.local/lib/python3.8/site-packages/paddle/nn.py": None,
    "/usr/lib/python3/dist-packages/numpy/core.py": None,
    "/tmp/torchinductor_me/ab/cab.py": None,
    "<decorator-gen-7>": None,  # of functions that libraries wrap
    "<frozen importlib._bootstrap>": None,
    json.__file__: None,
    walks.__file__: None,
}


@pytest.mark.parametrize(("file", "name"), FILES.items())
def test_code_of_libraries_is_not_the_programs_wherever_it_is_installed(file: str, name: str | None) -> None:
    assert walks.own_name_of(file) == name


@pytest.mark.parametrize("path", sorted(STARTUP.parent.glob("inside/*.py")), ids=lambda path: path.stem)
def test_it_is_read_by_the_older_pythons_that_programs_run_in(path: Path) -> None:
    """Python 3.8 has the grammar asked for here, and evaluates no annotation."""
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    assert any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imported if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in imported if isinstance(node, ast.ImportFrom) and not node.level}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names | {"sitecustomize"}
