"""Who holds memory, in words: the roles of tensors, and what is said of blocks that no variable was seen to hold.

A holder is the role of a tensor, the path to it from a variable of the program, and where that variable is: ``variable feats[*] (main, train.py)``;
or one of the names below, which say what became of the block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The name in the row after a walk that looked at all that variables lead to.
SAW_ALL = "-"
#: What a row begins with, as such a row without an address, that says how many nodes of each operator the graph has that a tensor leads to.
OF_GRAPH = "graph "
#: Who holds a block that a walk found nobody to hold, though it saw all that variables lead to.
NO_VARIABLE = "no variable"
#: … that a backward pass gave back, and that was made before it.
GRAPH = "the backward graph"
#: … that was made and given back in one call, or in one backward pass: no line of the program ran in between.
TEMPORARY, OF_BACKWARD = "a temporary", "a temporary of the backward pass"
#: … that the program itself let go of, between operators, before any walk.
UNSEEN = "a variable that no walk saw"
#: … in a training, where no walk saw a variable to hold another that was made so: a graph may have saved it.
EITHER = "a variable or a graph that no walk saw"
#: … that a backward pass made and left, of the size of a parameter or of a gradient that was seen.
GRADIENT = "a gradient that no walk saw"
#: … that goes as a variable does, and whose like, made by the same operator at the same line, an optimizer held.
STATE = "optimizer state that no walk saw"
#: All of what lives on between calls and that no walk saw.
NOT_SEEN = (UNSEEN, EITHER, GRADIENT, STATE)
#: … that a library made for itself.
WORKSPACE = "workspaces of libraries"
#: What those begin with that an operator was given, and that no variable had: ``temporary argument of softmax (attend, serve.py)``.
GIVEN = "temporary "
#: What holders begin with that are not said in each walk.
STAYING = ("parameter ", "optimizer ", "buffer ")

#: The roles, in the order of their reading, and what each is called.
ROLES = {
    "parameter": "parameters",
    "gradient": "gradients",
    "optimizer": "optimizer state",
    "buffer": "buffers",
    "model": "parameters or buffers",
    "saved": "saved for backward",
    "communication": "communication",
    "cache": "key-value cache",
    "workspace": WORKSPACE,
    "result": "activations or results",
    "variable": "variables of the program",
    "garbage": "garbage in cycles",
    "temporary": "temporaries",
    "nobody": "held by no variable",
}
#: What exists twice, and what makes it exist once.
TWINS = {
    "gradients": ("gradients of the step before", "set them to None after step()"),
    "buckets": ("gradients, in DDP's buckets too", "gradient_as_bucket_view=True"),
    "states": ("old optimizer state beside the new", "update it in place"),
    "weights": ("weights, a second set", "load one, or keep it on the host"),
    "half_weights": ("weights, in half their size too (at most)", "keep them in that type"),
    "batch": ("a batch beside the next one", "free it before the next is loaded"),
}
#: What tells them, in words.
TOLD_BY = {"holders": "holders", "stacks": "call stacks", "steps": "steps"}
#: What each is in columns of numbers.
ROLE_NUMBERS = {role: number for number, role in enumerate(ROLES)}
#: Those names of holders that were inferred, and the roles of what they hold.
INFERRED = {
    NO_VARIABLE: "nobody",
    GRAPH: "saved",
    TEMPORARY: "temporary",
    OF_BACKWARD: "temporary",
    UNSEEN: "variable",
    EITHER: "",
    GRADIENT: "gradient",
    STATE: "optimizer",
    WORKSPACE: "workspace",
}


def role_of(holder: str) -> str | None:
    """The role of what somebody holds, one of :data:`ROLES`; ``None`` for a holder of another kind."""
    role = INFERRED.get(holder) or holder.partition(" ")[0]
    return role if role in ROLES else None


def large_changes(changes: Mapping[str | None, int], d_peak_bytes: int) -> dict[str, int]:
    """The largest two changes of a role that are a tenth of that of the peak or more, where roles account for all of it; else nothing."""
    if sum(changes.values()) != d_peak_bytes or 10 * abs(changes.get(None, 0)) > abs(d_peak_bytes):
        return {}
    large = [(role, size) for role, size in changes.items() if role is not None and 10 * abs(size) >= abs(d_peak_bytes)]
    return dict(sorted(large, key=lambda one: -abs(one[1]))[:2])


def variable_of(holder: str | None) -> str | None:
    """Who holds a block as a sentence says it: of a variable, or a graph (``loss.grad_fn``), whose role goes without saying, the path alone.

    Of what was there for the length of a call, or was not seen, a sentence says nobody.
    """
    if holder is None or holder.startswith(GIVEN) or holder in (TEMPORARY, OF_BACKWARD, *NOT_SEEN):
        return None
    return holder.removeprefix("variable ").removeprefix("saved ")
