"""The formats of inputs: the built-in ones, those of installed packages, those of users, and which of them an input has.

A format is recognised by the first bytes of the input, uncompressed, and never by the name of a file.  Text in which nothing else is
recognised is read as a log of Paddle.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from memlens.errors import InputError, MemlensError, UsageError
from memlens.inputs.built_in import BUILT_IN, PADDLE
from memlens.inputs.file_source import FileSource
from memlens.inputs.input_format import HEAD, InputFormat, Request
from memlens.options import ReadAs
from memlens.results import Failure, Result

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib import metadata
    from pathlib import Path

    from memlens.inputs.unread import Unread
    from memlens.log import Log
    from memlens.source import TextSource


#: The entry-point group through which other packages add formats: each leads to an :class:`InputFormat`, whose name is the entry point's.
GROUP = "memlens.formats"
SCHEMA = "memlens.formats/1"

#: Why something is read as a log of Paddle that does not begin like one.
_OTHER = "no other format was recognised, and text is read as a log of Paddle"
#: … and why something is read as another format of text in which nothing was recognised.
TRIED = "it holds such events, and none of Paddle"
#: What stands before the name of a format of users in :attr:`Facts.layer`.
_OWN = "format:"


class Recognised(Struct, frozen=True):
    """Which format an input has.

    Attributes:
        format: The format.
        why: By what it was recognised, in words.
        asked: It was asked for and not looked for.
        unread: What it looks like that no format reads; of text and of what is read as text only where no event was found.
    """

    format: InputFormat
    why: str
    asked: bool = False
    unread: Unread | None = None

    @property
    def certain(self) -> bool:
        """Whether something in the input tells its format, and memlens reads it."""
        return self.why != _OTHER and (self.unread is None or self.unread.text)


def recognise(source: TextSource, how: ReadAs | None = None) -> Recognised:
    """Tell which format an input has.

    Raises:
        UsageError: No format has the name that was asked for, or a file of formats is not sound.
        InputError: The input cannot be read.
    """
    how = how or ReadAs()
    if how.read_as is not None:
        return Recognised(get_format(how.read_as, how.formats), "it was asked for", asked=True)
    head = source.head(HEAD)
    for form in (*_of_users(how.formats), PADDLE):
        if why := form.recognise(head):
            return Recognised(form, why)
    from memlens.inputs.unread import BINARY, TRACES, unread_kind

    for form in _known_at_once():
        if form is not PADDLE and (why := form.recognise(head)):
            # A package may read what memlens itself does not.
            unread = unread_kind(head, (*BINARY, *TRACES)) if form in BUILT_IN else None
            return Recognised(form, why, unread=unread)
    return Recognised(PADDLE, _OTHER, unread=unread_kind(head))


def _known_at_once() -> Iterator[InputFormat]:
    """Formats that need no file of the user's; those of packages are looked for after the built-in ones, for that takes time."""
    yield from BUILT_IN
    yield from _installed()


def known_formats(formats: str | Path | None = None) -> tuple[InputFormat, ...]:
    """Every format there is: the built-in ones, those of users, those of installed packages.

    Args:
        formats: A TOML file with formats, instead of those in the nearest ``pyproject.toml``.

    Raises:
        UsageError: A file of formats is not sound.
    """
    return (*BUILT_IN, *_of_users(formats), *_installed())


def get_format(name: str, formats: str | Path | None = None) -> InputFormat:
    """The format of that name.

    Raises:
        UsageError: There is none; the message lists those there are.
    """
    known = {form.name: form for form in BUILT_IN}
    if name not in known:
        # Of two of one name the first one counts.
        known = {form.name: form for form in reversed(known_formats(formats))}
    if name in known:
        return known[name]
    import difflib

    close = difflib.get_close_matches(name, known, n=1)
    guess = f"Did you mean {close[0]!r}? " if close else ""
    raise UsageError(f"no input format is called {name!r}", f"{guess}There are: {', '.join(reversed(known))}.")


def not_text(head: bytes) -> str:
    """Name an input that has no lines of text, by its first bytes; ``""`` for text."""
    return next((form.title for form in BUILT_IN if not form.is_text and form.recognise(head)), "")


def check_alike(base: str, base_layer: str, head: str, head_layer: str) -> None:
    """Refuse to compare two logs, given their names and layers, whose sizes do not mean the same.

    Raises:
        InputError: They were read from different kinds of input.
    """
    (ours, our_sizes), (theirs, their_sizes) = _title_and_sizes(base_layer), _title_and_sizes(head_layer)
    if ours == theirs:
        return
    raise InputError(
        f"{base} is {ours} and {head} is {theirs}: these cannot be compared, for equal allocations have different sizes in them",
        f"Sizes in {ours} are {our_sizes}; in {theirs} they are {their_sizes}. Record both runs in the same way.",
    )


def _title_and_sizes(layer: str) -> tuple[str, str]:
    if layer.startswith(_OWN):
        return f"a log of the format {layer.removeprefix(_OWN)!r}", "what its lines say"
    form = next((form for form in BUILT_IN if layer in form.layers), PADDLE)
    return form.title, form.sizes


def _of_users(formats: str | Path | None) -> tuple[InputFormat, ...]:
    from memlens.inputs.custom import user_formats

    return user_formats(formats, lambda: {form.name for form in BUILT_IN})


# Formats of installed packages.


def _installed() -> tuple[InputFormat, ...]:
    """The formats of installed packages, by name; a built-in one is never replaced.

    Raises:
        MemlensError: One cannot be loaded, or is none; the message names its package.
    """
    from memlens.plugins import entry_points, package_of

    own = {form.name for form in BUILT_IN}
    points = {point.name: point for point in sorted(entry_points(GROUP), key=package_of) if point.name not in own}
    return tuple(_load(point) for _, point in sorted(points.items()))


def _load(point: metadata.EntryPoint) -> InputFormat:
    from memlens.plugins import blaming, load, package_of

    package = package_of(point)
    what = f"input format {point.name!r} of package {package!r}"
    update = f"Update or uninstall {package}."
    form = load(point, what, update)
    if not isinstance(form, InputFormat):
        raise MemlensError(f"{what} is no InputFormat but {type(form).__name__}", update)

    def look(head: bytes) -> str:
        with blaming(f"{what} failed to look at an input"):
            found = form.recognise(head)
        return found if isinstance(found, str) else f"the detector of {point.name} says so" if found else ""

    def logs_of(source: FileSource, request: Request) -> Sequence[Log]:
        with blaming(f"{what} failed on {source.name}"):
            logs = list(form.read(source, request))
        if not logs:
            raise MemlensError(f"{what} gave no log of {source.name}")
        return logs

    return replace(form, name=point.name, origin=package, recognise=look, read=logs_of)


# The verb: memlens formats.


class RecognisedInput(Result, frozen=True):
    """The format that one input was recognised as.

    Attributes:
        path: The input as it was named.
        format: The name of its format; ``None`` where no reader can read it.
        why: By what it was recognised, in words.
        compression: ``gzip``, ``zstd``, ``xz``, ``bzip2`` or ``""``.
        looks_like: What it looks like that memlens does not read, or ``""``.
        hint: How to get something that memlens reads, or ``""``.
    """

    path: str
    format: str | None
    why: str
    compression: str
    looks_like: str = ""
    hint: str = ""

    @property
    def recognised(self) -> bool:
        """Whether something in it tells its format, and memlens reads it."""
        return self.format is not None and self.why != _OTHER


class ListedFormat(Result, frozen=True):
    """A format in words; see :class:`~memlens.inputs.input_format.InputFormat`."""

    name: str
    summary: str
    sample: str
    sizes: str
    places: str
    origin: str


class Formats(Result, frozen=True):
    """The answer of :func:`formats`.

    Attributes:
        known: Every format, in the order in which they are listed.
        inputs: What each input was recognised as, in the order given.
        failures: Those of several inputs that cannot be read; the error of a single one is raised instead.
    """

    schema: ClassVar[str] = SCHEMA
    in_json: ClassVar[tuple[str, ...]] = ("schema", "formats=listed", "inputs", "failures")

    known: tuple[InputFormat, ...]
    inputs: tuple[RecognisedInput, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def listed(self) -> tuple[ListedFormat, ...]:
        """The formats as the machine output has them."""
        return tuple(
            ListedFormat(*(getattr(form, name) for name in ListedFormat.__struct_fields__)) for form in self.known
        )


def formats(
    logs: str | Path | BinaryIO | Sequence[str | Path | BinaryIO] = (), *, formats: str | Path | None = None
) -> Formats:
    """List the formats that memlens reads, and say which of them inputs have; of these only the beginning is read.

    Args:
        logs: One input or several, as for :func:`memlens.read`; none for the list alone.
        formats: A TOML file with formats of your own, instead of those in the nearest ``pyproject.toml``.

    Raises:
        InputError: The only input cannot be read.  One of several becomes a :class:`~memlens.errors.Failure` instead.
        UsageError: A file of formats is not sound.
    """
    known = known_formats(formats)
    inputs: list[Any] = list(logs) if isinstance(logs, (list, tuple)) else [logs]
    found: list[RecognisedInput] = []
    failures: list[Failure] = []
    for given in inputs:
        source = FileSource(given)
        try:
            found.append(_recognised(source, formats))
        except InputError as error:
            if len(inputs) == 1:
                raise
            failures.append(Failure(source.name, error.message, error.hint))
    return Formats(known, tuple(found), tuple(failures))


def _recognised(source: FileSource, formats: str | Path | None) -> RecognisedInput:
    with closing(source):
        found = recognise(source, ReadAs(formats=formats))
        with source.open() as stream:
            compression = stream.compression
        is_empty = not source.head(HEAD)
    if is_empty:
        return RecognisedInput(source.name, None, "it holds nothing", compression, "an empty file")
    unread = found.unread
    if unread is None or (unread.text and found.format is not PADDLE):
        return RecognisedInput(source.name, found.format.name, found.why, compression)
    if unread.text:
        return RecognisedInput(source.name, found.format.name, found.why, compression, unread.title, unread.way)
    return RecognisedInput(source.name, None, "it is told by its first bytes", compression, unread.title, unread.way)
