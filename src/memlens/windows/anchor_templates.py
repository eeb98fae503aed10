r"""Which lines could be anchors: texts that stay the same but for a number that counts.

People who hunt memory print lines like ``START SOT_CALL_12``, ``STEP 3 START`` or ``== iteration 7 ==``; trainers print
``Epoch: [0] [ 110/3125] …``.  :func:`templates` tells these from the rest of a log (events, messages of the framework, JSON,
warnings, progress bars) by the look of one line; whether the numbers really count is judged over the whole log, in
:mod:`memlens.windows.anchor_discovery`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum

from msgspec import Struct
from msgspec.structs import replace


class Place(IntEnum):
    """Where a line stands in the work that it names, the best one to cut at first."""

    OPENING = 0  # it says so: START, BEGIN
    BARE = 1  # it says nothing but what is counted (a step, an epoch, a call, …), and the number
    PROGRESS = 2  # figures follow, so it is printed when the work is done, but before the next work begins
    CLOSING = 3  # it says so: END, DONE
    UNNAMED = 4  # some words and a number


class Work(IntEnum):
    """The work that a template counts: whether each is the same work again, so that memory that one leaves behind is told from a leak."""

    STEP = 0  # one after the other, each the same: steps, iterations, batches, requests
    EPOCH = 1  # the same, but each of many steps
    PART = 2  # of a larger unit of work, or of who knows what: calls, layers, micro batches; what they leave behind may be used later


class Template(Struct, frozen=True):
    """A kind of lines that differ in counting numbers only.

    Attributes:
        by: A regular expression that finds them; its first group is what to call the window.
        strict: The same for lines that hold nothing before it, nor behind it where that is the rule.
        place: Where such lines stand.
        numbers: Which of the numbers of the line, from 0, are in the group.
        work: What its last number counts.
        aside: It counts other work than training: evaluation, validation, tests, prediction.
        counts: The lines have a number that counts; others mark work by coming again evenly.
    """

    by: str
    strict: str
    place: Place
    numbers: tuple[int, ...]
    work: Work = Work.PART
    aside: bool = False
    counts: bool = True


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_OPENING = _set("start starts started starting begin begins beginning enter entering")
_CLOSING = _set(
    "end ends ended ending stop stops stopped finish finishes finished finishing done exit leave leaving close closed "
    "complete completed completes after"
)
_UNITS = _set(
    "step steps gstep iter iters iteration iterations epoch epochs batch batches microbatch microbatches call calls subgraph subgraphs "
    "profilerstep minibatch graph block blocks layer layers stage stages round rounds phase phases pass passes loop loops segment segments sample samples "
    "request requests forward backward fwd bwd train eval validate validation update updates partition part section"
)
#: Whose line it is, says a number after such a word.
_OWNERS = _set(
    "worker workers rank ranks process processes proc pid tid thread threads gpu gpus device devices dev card cards port node "
    "host server trainer trainers"
)
#: How much of something there is; it does not count the work, nor does what follows it.
_FIGURES = _set(
    "seed size sizes len length lr loss acc accuracy time eta ips version code num nums number count "
    "total attempt retry signal dim dims shape id uid slot level year month day hour"
)
_STEPS = _set(
    "step steps gstep profilerstep iter iters iteration iterations batch batches minibatch round rounds loop loops sample samples request requests update updates "
    "episode episodes"
)
_EPOCHS = _set("epoch epochs")
#: Behind the number of what holds many steps a second number counts these: ``Train: [3/300][40/1251]``.
_OF_STEPS = _EPOCHS | _set("train training")
_SMALLER = _set("micro microbatch sub")
#: What is repeated is read in once, and kept; behind the number only where nothing else follows (``iter 3: data load 0.1s``).
_LOADING = _set(
    "load loads loading loaded read reads reading checkpoint checkpoints download downloads shard shards fetching"
)
_ASIDE = _set(
    "eval evaluate evaluation evaluating val valid validate validation validating test testing predict prediction predicting"
)
_ORDINALS = _set("id num number count")
#: A line that holds such a word is about something else.
_STRANGE = _set(
    "warning warn warnings error errors exception traceback file line bytes byte kb mb gb kib mib gib alloc allocate allocated "
    "allocation free freed memory mem malloc ptr addr address chunk tensor place dtype kernel op api download downloading"
)

#: Lines of trainers whose number is not the first one, or stands behind much else; as found in Paddle's model suites.
_PROGRESS = tuple(
    re.compile(expression)
    for expression in (
        r"([Ee]poch: ?\[\d+\] *\[ *\d+/\d+\])",  # torchvision: Epoch: [0]  [ 110/3125] mem_allocated: 1021 MB …
        r"(global_step: \d+)",  # PaddleNLP's trainer: loss: 2.1, …, global_step: 10, …
        r"(step_idx: \d+)",  # PaddleNLP's benchmarks: step_idx: 600, …
        r'^\{.*("(?:global_)?step": ?\d+)',  # a line of JSON: {"step": 600, …}
        r"^((?:\[ *\d+/\d+\]){2,3})",  # PyTorch's DCGAN: [0/2][3/20]  Loss_D: …
        r".*\d%\|[^|]*\| *(\d+/\d+) \[",  # tqdm, Lightning:  15%|█▌        | 3/20 [00:01<00:05, …
        r".*(?:^|[\r\b])\s*((?:step +)?\d+/\d+) (?:\[[=>.]+\]|━|╸)",  # Keras, Paddle's hapi: 12/100 [====>…] - loss: …
        r"(\biter: +\d+)  ",  # Detectron2: eta: 0:01:00  iter: 19  total_loss: …
    )
)

#: A figure in a skeleton.
_FIGURE = re.compile(r"\b(?:nan|inf)\b|0(?:\.0)?(?:[eE][-+]?0)?")
#: Words that the expression of a line has that counts nothing; between them stand figures, marks and exponents.
_WORDS_OF_MARK, _BETWEEN = 3, r"(?:[^A-Za-z]|e[-+]?\d)*"
#: … and what such a line is called: the first of them that stand together, with a number that follows (in a skeleton).
_NAME = re.compile(r"[^\W\d_]+(?: [^\W\d_]+){0,2}")
_ITS_NUMBER = re.compile(r"[ #:=_]{0,2}0(?![^\s\])|,])")

#: Stamps, levels, places in the code and addresses that a logger, a container, a launcher or a server puts before a line (numbers as they stand in a
#: skeleton).
_HEADER = re.compile(
    r"(?:\[0,0\]<std(?:out|err)>:|\[?(?:0[-/])?0[-/]0[ T]0:0:0(?:[.,]0)?(?:Z|[+-]0:?0?)?|\[0:0:0(?:[.,]0)?|\b(?:INFO|DEBUG)\b|0\.0\.0\.0(?::0)?[ \t])"
    r"[\]:|\s-]*(?:\[?[\w.]+:(?:\w+:)?0(?::\w+)?(?:\]| -)\s+)?"
)
_LONGEST_HEADER = 80
_NUMBER = re.compile(r"0")
_WORD = re.compile(r"[^\W\d_]+")
#: An identifier that ends right before a number, with what may stand between: ``step_idx: ``, ``SOT_CALL_``, ``Epoch [``.
_BEFORE = re.compile(r"([^\W\d]+)\)?[\s:=#\[(_-]*\Z")
_TOTAL = re.compile(r"\s?/\s?0")
_REST = re.compile(r"[\s\d/.(%)]*\]")
_IS_TOTAL = re.compile(r"0\s?/\s?\Z")
_OPENS = re.compile(r"([^\W\d_]+)[\s:]+")
_STRANGE_CHARACTERS = re.compile(r"[^\w\s:\[\]()/#*=.,%<>~+!|-]")
_LONGEST = 100
_MOST_NUMBERS = 3
#: Characters with a meaning in an expression.
_SPECIAL = re.compile(r"([\\.^$*+?{}\[\]|()])")


def decoded(bones: bytes) -> str:
    """The text of a skeleton without blanks at its end; ``""``, which is like no anchor, where it is no UTF-8."""
    try:
        return bones.decode().rstrip()
    except UnicodeDecodeError:
        return ""


def padded(template: Template) -> Template:
    """The same template for lines whose numbers may be padded."""
    if any(template.by == known.pattern for known in _PROGRESS):
        return template  # which allow it where it is found
    by, strict = (
        re.sub(r"(?<=[\[(])\\d\+", r" *\\d+", one.replace(r" \d+", r" +\d+")) for one in (template.by, template.strict)
    )
    return replace(template, by=by, strict=strict)


def recurring(bones: bytes) -> Template | None:
    """The template of a line that may mark work by coming again and again: its first words, whatever figures stand between.

    Args:
        bones: The :func:`skeleton` of a clean line.

    Returns:
        Its template, which counts nothing; ``None`` for an empty line, or one that is about something else.
    """
    line = decoded(bones)
    text = _FIGURE.sub("0", line)
    found = _WORD.findall(text)
    words = {word.lower() for word in found}
    if not (_STRANGE | _LOADING).isdisjoint(words):
        return None
    if name := _NAME.search(text):
        others = found[len(name[0].split()) : _WORDS_OF_MARK]
        number = _ITS_NUMBER.match(line, line.index(name[0]) + len(name[0]))
        its_number = "" if number is None else _escaped(number[0])
        by = f"^[^A-Za-z]*({name[0]}{its_number}){''.join(_BETWEEN + word for word in others)}(?![A-Za-z])"
    else:
        by = r"^[\s\[(]*(\d[\d.]*)[\s\d.,:|+)\]-]*$"
    place = Place.PROGRESS if "0" in text else Place.BARE
    aside = not _ASIDE.isdisjoint(words)
    return Template(by, by, place, (), Work.STEP, aside, counts=False) if found or "0" in text else None


def templates(bones: bytes) -> tuple[Template, ...]:
    """The templates that a line may be one of.

    Args:
        bones: The :func:`skeleton` of a clean line.

    Returns:
        Templates with different expressions; none for a line that is no anchor by its looks.
    """
    text = decoded(bones)
    begin = _header_end(text)
    found = {template.by: template for template in (*_progress(text), *_heads(text, begin))}
    return tuple(found.values())


def _header_end(text: str) -> int:
    """Where what a logger puts before a line ends: behind the last mark of one that is not behind the words of an anchor."""
    end = 0
    for mark in _HEADER.finditer(text, 0, _LONGEST_HEADER):
        if not _UNITS.isdisjoint(word.lower() for word in _WORD.findall(text, end, mark.start())):
            break
        end = mark.end()
    return end


def phase_template(bones: bytes) -> Template | None:
    """The template of a line that says where a part of the work begins or ends, with a number or without one.

    Args:
        bones: The :func:`skeleton` of a clean line.

    Returns:
        Its template, of an opening or a closing place; ``None`` for any other line.
    """
    found = [template for template in templates(bones) if template.place in (Place.OPENING, Place.CLOSING)]
    if found:
        return found[-1]
    text = decoded(bones).lstrip()
    words = [word.lower() for word in _WORD.findall(text)]
    if len(words) < 2 or "0" in text or not _plain(text, words):
        return None
    ends = {words[0], words[-1]}
    place = Place.CLOSING if ends & _CLOSING else Place.OPENING if ends & _OPENING else None
    if place is None:
        return None
    first, last = _name(text, 0, len(text), -1, place)
    if place is Place.OPENING and (word := _OPENS.match(text, first, last)) and word[1].lower() in _OPENING:
        first = word.end()
    by = f"{_escaped(text[:first])}({_escaped(text[first:last])}){_escaped(text[last:])}"
    return Template(by, f"^{by}$", place, ())


def named_as_it_is(bones: bytes) -> Template | None:
    """The template of a line that was written to mark something, whatever it says: an annotation.

    Args:
        bones: The :func:`skeleton` of a clean line.

    Returns:
        Its template, of an unnamed place; ``None`` for an empty line, one too long, or one that is no UTF-8.
    """
    text = decoded(bones).strip()
    by = f"({_escaped(text)})"
    return Template(by, f"^{by}$", Place.UNNAMED, ()) if 0 < len(text) <= _LONGEST else None


def _progress(text: str) -> Iterator[Template]:
    for expression in _PROGRESS:
        if match := expression.search(text):
            first = text.count("0", 0, match.start(1))
            numbers = tuple(range(first, first + match[1].count("0")))
            by, words = expression.pattern, {word.lower() for word in _WORD.findall(text, 0, match.start(1))}
            work = Work.PART if words & _LOADING else Work.STEP
            yield Template(by, by, Place.PROGRESS, numbers, work, aside=not words.isdisjoint(_ASIDE))
            return


def _heads(text: str, begin: int) -> Iterator[Template]:
    """The beginnings of a line, up to its first, second, third counting number and the words behind it."""
    numbers = [
        match.start() for match in _NUMBER.finditer(text, begin) if not _IS_TOTAL.search(text, begin, match.start())
    ]
    counting, owners = list[int](), set[int]()
    unit, work, of_steps = False, Work.PART, False
    for place in numbers:
        kind = _kind(text, begin, place)
        if kind == "figure" or (kind == "count" and len(counting) == _MOST_NUMBERS):
            return
        if kind == "owner":
            owners.add(text.count("0", 0, place))
        if kind != "count":
            continue
        counting.append(place)
        named = _words_before(text, begin, place)
        if named:
            unit, work = unit or not _UNITS.isdisjoint(named), _work(text, begin, place, named)
            of_steps = not _OF_STEPS.isdisjoint(named)
        elif of_steps:
            work = Work.STEP
        end, bare = _head_end(text, place, numbers)
        template = _template(text, begin, end, counting, bare=bare, unit=unit)
        if template is not None:
            before = {word.lower() for word in _WORD.findall(text, begin, place)}
            words = before | {word.lower() for word in _WORD.findall(text, place, end)} if bare else before
            yield replace(
                template,
                numbers=tuple(number for number in template.numbers if number not in owners),
                work=Work.PART if words & _LOADING else work,
                aside=not before.isdisjoint(_ASIDE),
            )


def _kind(text: str, begin: int, place: int) -> str:
    """Whether a number may count, is a figure (after which no anchor goes on), is part of a word (``fp16``) or says whose line it is."""
    before, after = text[place - 1 : place] if place > begin else "", text[place + 1 : place + 2]
    if before == "(" and text.startswith("%)", place + 1):
        return "word"
    two_after = text[place + 1 : place + 3]
    if re.match(r"[.,:]0", two_after) or re.search(r"0[.,:]\Z", text[begin:place]) or before == "." or after == "%":
        return "figure"
    if after.isalpha():
        return "word"
    words = _words_before(text, begin, place)
    if before.isalpha():
        return "count" if words[-1] in _UNITS else "word"
    if words and words[-1] in _OWNERS:
        return "owner"
    if words and words[-1] in _FIGURES and not (words[-1] in _ORDINALS and words[-2:-1] and words[-2] in _UNITS):
        return "figure"
    return "figure" if before in ("-", "+") and place - 1 > begin and text[place - 2].isspace() else "count"


def _work(text: str, begin: int, place: int, words: list[str]) -> Work:
    """The work that a number counts, given the words of the identifier before it: ``STEP 3``, ``step_idx: 3``, but ``micro batch 3``."""
    if not _SMALLER.isdisjoint(word.lower() for word in _WORD.findall(text, begin, place)):
        return Work.PART
    return Work.STEP if not _STEPS.isdisjoint(words) else Work.PART if _EPOCHS.isdisjoint(words) else Work.EPOCH


def _words_before(text: str, begin: int, place: int) -> list[str]:
    """The words of the identifier that a number follows."""
    identifier = _BEFORE.search(text, begin, place)
    return [word.lower() for word in _WORD.findall(identifier[1])] if identifier else []


def _head_end(text: str, place: int, numbers: list[int]) -> tuple[int, bool]:
    """Where the words behind a number end: before what holds the next number or a value; and whether the line ends there."""
    total = _TOTAL.match(text, place + 1)
    after = total.end() if total else place + 1
    next_number = next((n for n in numbers if n >= after), len(text))
    equals = text.find("=", after)
    # "=" between figures gives a value; a row of them is decoration
    value = equals if equals >= 0 and text[equals : equals + 2] != "==" and text[equals - 1] not in " =" else len(text)
    stop = min(next_number, value)
    if stop == len(text):
        return stop, True
    cut = max(text.rfind(" ", after, stop), text.rfind("\t", after, stop), text.rfind("]", after, stop - 1) + 1, after)
    return after + len(text[after:cut].rstrip()), False


def _template(text: str, begin: int, end: int, counting: list[int], *, bare: bool, unit: bool) -> Template | None:
    """The template of a line that begins so, or ``None`` where it does not look like an anchor."""
    head = text[begin:end]
    words = [word.lower() for word in _WORD.findall(head)]
    if max(map(len, words), default=0) < 2 or not _plain(head, words):
        return None
    opens, closes = not _OPENING.isdisjoint(words), not _CLOSING.isdisjoint(words)
    if closes:
        place = Place.CLOSING
    elif opens:
        place = Place.OPENING
    elif bare:
        place = Place.BARE if unit else Place.UNNAMED
    elif unit:
        place = Place.PROGRESS
    else:
        return None
    behind = text[counting[-1] : end]
    plain = not any(mark in behind for mark in "|<>") and head.count("[") == head.count("]")
    stop = end if (bare or closes) and plain else _number_end(text, begin, counting[-1])
    end = max(end, stop)
    first, last = _name(text, begin, stop, counting[-1], place)
    by = f"{_escaped(text[begin:first])}({_escaped(text[first:last])}){_escaped(text[last:end])}"
    rest = r"\s*$" if bare else ""
    strict = f"^{by}{rest}" if begin == 0 else by + rest
    numbers = tuple(text.count("0", 0, number) for number in range(first, last) if text[number] == "0")
    return Template(by, strict, place, numbers)


def _plain(text: str, words: Sequence[str]) -> bool:
    """Whether a text is short and holds nothing, character or word, that no anchor holds."""
    return len(text) <= _LONGEST and not _STRANGE_CHARACTERS.search(text) and _STRANGE.isdisjoint(words)


def _number_end(text: str, begin: int, number: int) -> int:
    """Where a number ends, with the rest of the bracket that it stands in: ``[34/200]``, ``[64/640 (10%)]``."""
    end = number + 1
    if text.count("[", begin, end) > text.count("]", begin, end) and (rest := _REST.match(text, end)):
        end = rest.end()
    return end


def _name(text: str, begin: int, end: int, number: int, place: Place) -> tuple[int, int]:
    """The name of the window: the text without decoration, and without the word that says START."""
    first, last = begin, end
    while first < last and not (text[first].isalnum() or text[first] == "["):
        first += 1
    while last > number + 1 and not (text[last - 1].isalnum() or text[last - 1] in "])"):
        last -= 1
    if place is Place.OPENING:
        if (word := _OPENS.match(text, first, last)) and word[1].lower() in _OPENING:
            first = word.end() if word.end() <= number else first
        if (word := re.search(r"[\s:,]+([^\W\d_]+)\Z", text[first:last])) and word[1].lower() in _OPENING:
            last = max(first + word.start(), number + 1)
    return first, last


def _escaped(text: str) -> str:
    """Text of a skeleton as a regular expression that people can read; ``re.escape`` would escape each blank."""
    return _SPECIAL.sub(r"\\\1", text).replace("\t", r"\t").replace("0", r"\d+")
