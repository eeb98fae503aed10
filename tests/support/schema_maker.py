"""JSON Schemas made from the types of results: each type as a twin whose fields are the names of the machine output."""

from __future__ import annotations

import ast
import importlib
import inspect
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from memlens.analyzers import registry
from memlens.claims.claim import Claim
from memlens.results import Result, names_of

#: What has no fields of its own in the machine output, as what stands there.
_PLAIN: dict[str, Any] = {"Path": str, "Fraction": str, "ndarray": list[int]}
#: What every claim has; its values stand beside that.
_CLAIM = msgspec.defstruct("Claim", [("kind", str), ("weight", int), ("text", str)])


@cache
def _names(module: str) -> dict[str, Any]:
    """What the names in a module mean, those among them that it imports for its annotations alone."""
    loaded = importlib.import_module(module)
    found: dict[str, Any] = dict(vars(loaded))
    for node in ast.walk(ast.parse(inspect.getsource(loaded))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
            source = importlib.import_module(node.module)
            found |= {
                alias.asname or alias.name: getattr(source, alias.name)
                for alias in node.names
                if hasattr(source, alias.name)
            }
        elif isinstance(node, ast.Import):
            found |= {alias.asname or alias.name: importlib.import_module(alias.name) for alias in node.names}
    return found


def _hint(kind: type, attribute: str) -> Any:
    """The type of a field or a property."""
    for base in kind.__mro__:
        own = inspect.getattr_static(base, attribute, None)
        getter = own.fget if isinstance(own, property) else getattr(own, "func", None)
        if getter is not None:
            return _resolved(getter.__annotations__["return"], base.__module__)
        if attribute in vars(base).get("__annotations__", {}):
            return _resolved(vars(base)["__annotations__"][attribute], base.__module__)
    raise LookupError(f"{kind.__name__}.{attribute} has no type")


def _resolved(text: Any, module: str) -> Any:
    return eval(text, _names(module)) if isinstance(text, str) else text


def _twin(hint: Any) -> Any:
    """A type with the twins of all results in it."""
    if hint is Any or hint is None or hint is object:
        return Any
    if typing.get_origin(hint) is typing.ClassVar:
        return _twin(typing.get_args(hint)[0])
    if hint is Claim:
        return _CLAIM
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _struct(hint)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return typing.Annotated[(_twin(inner[0]), *hint.__metadata__)]
    if origin is typing.Literal or inner == ():
        return _PLAIN.get(getattr(hint, "__name__", ""), hint)
    if origin in (types.UnionType, typing.Union):
        return typing.Union[tuple(_twin(one) if one is not type(None) else one for one in inner)]  # noqa: UP007
    if origin in (Mapping, dict):
        return dict[str, _twin(inner[-1])]  # type: ignore[misc]
    if origin is tuple and inner[-1] is not ...:
        return list[typing.Union[tuple(map(_twin, inner))]]  # type: ignore[misc]  # noqa: UP007
    return list[_twin(inner[0])]  # type: ignore[misc]


@cache
def _struct(kind: type[Struct]) -> Any:
    fields: list[Any] = []
    tables = getattr(kind, "tables", {})
    for name, attribute in names_of(kind).items():
        if name in getattr(kind, "spliced", ()):
            fields += _spliced(kind, attribute)
        elif name in tables or name in getattr(kind, "headlines", ()):
            fields.append((name, _twin(_hint(kind, attribute)) | UnsetType, UNSET))
            fields.append((f"{name}_left_out", int | UnsetType, UNSET))
        else:
            hint = _hint(kind, attribute)
            fields.append((name, _twin(hint), *([UNSET] if UnsetType in typing.get_args(hint) else [])))
    return msgspec.defstruct(kind.__name__, fields, kw_only=True)


def _spliced(kind: type[Struct], attribute: str) -> list[Any]:
    """The fields of a part whose names stand beside those of the whole."""
    hint = _hint(kind, attribute)
    if typing.get_origin(hint) is Mapping:  # the results of analyzers, by their names
        given = {one.name: inspect.unwrap(one.function) for one in registry.BUILT_IN}
        lists = {
            name: _resolved(inspect.signature(one).return_annotation, one.__module__) for name, one in given.items()
        }
        return [(name, _twin(typing.get_args(many)[0]) | UnsetType, UNSET) for name, many in lists.items()]
    part = next(one for one in (*typing.get_args(hint), hint) if isinstance(one, type) and issubclass(one, Struct))
    optional = part is not hint
    twins = msgspec.structs.fields(_struct(part))
    return [
        (one.name, one.type | UnsetType if optional else one.type, *([UNSET] if optional or not one.required else []))
        for one in twins
    ]


def schema_of(kind: type[Result | Struct]) -> dict[str, Any]:
    """The schema of a result as the machine output has it."""
    twin = _struct(kind)
    found = msgspec.json.schema(twin, ref_template="#/$defs/{name}")
    found = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": kind.__name__, **found}
    if claim := found["$defs"].get("Claim"):
        claim["additionalProperties"] = True
    name = getattr(kind, "schema", None)
    if isinstance(name, str):
        found["$defs"][kind.__name__]["properties"]["schema"] = {"const": name}
    return found
