"""The modules of the page, asked by Node."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

#: Where they lie in the folder of the tests, as in the repository.
VIEWER = "src/memlens/drawing/viewer"


def answer(node: Callable[..., str], module: str, names: str, expression: str, given: object) -> Any:
    """What an expression gives in JavaScript with names of a module, and with ``given``."""
    script = f"""
    import {{ readFileSync }} from "node:fs";
    import {{ {names} }} from "./{VIEWER}/{module}.js";
    const given = JSON.parse(readFileSync(0, "utf8"));
    console.log(JSON.stringify({expression}));"""
    return json.loads(node("--input-type=module", "--eval", script, given=given))
