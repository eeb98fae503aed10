"""The words of what two runs, a run and its limits, and many runs come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlens.claims.template import Words, write
from memlens.claims.words import WORDS
from memlens.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from memlens.claims.template import Values, Wording


#: Doubts of a run that are named.
_NAMED = 2

# -- two runs compared ---------------------------------------------------------------------------------------------------------

_PEAK_OF = "{since_recording?since the first entry, |[in {window:called} ]}"
_DEVICE = "{devices>1? on the fullest device|}"
_AGAINST_BASE = "{d_%s:more} than base ({base_%s:bytes})"
_BUT = "{although_less?but |}"
_OPPOSITE = "{needs=less?more|less}"
_IN_WINDOW = "[, in {window:called}]"
_EVERY_RUN = "{runs=2?both runs|all {runs:plural run}}"
_CHANGE = "{window?the largest change of %s is|%s differs by} "
_DIFFERENCE = (
    "{window_pairs?{window_pairs=1?the one pair of windows is|all {window_pairs:plural pair} of windows are} %s"
    "|every allocation has its partner in the other run, and both free it sooner or later, or neither does}"
)
_BALANCE = "{%s_remaining_bytes<0?frees {%s_remaining_bytes:size} more than it allocates|leaves {%s_remaining_bytes:bytes} behind}"

# What some blocks explain: all of a difference, or a part of it, or more than it.
_WHOLE = "the {d_bytes:size}{at_peak?{d_bytes<0? saved|}|{d_bytes<0? less|} left behind}"
_ALIKE = "[ ({alike_blocks:count} such {frees?Frees|blocks} are {alike_bytes=d_bytes?all of it|{alike_bytes:size}})]"
_MANY = "[ in {windows:plural window}]"

# The first of the blocks, and what becomes of it.
_FIRST = "{blocks=1?it|the first}"
_HELD = "[; {holder:owner} holds {held_in_part?most of them|it}]"


def _frees(side: str, what: str, only: str = "") -> str:
    """The template of ``frees it at line 77``, ``frees it only at line 201``, ``never frees it``; the values begin with ``side``."""
    return f"{{{side}freed=never?never frees {what}|frees {what}[{only} at {{{side}free_line:at}}]}}"


def _after_peak(side: str, peak: str) -> str:
    after = f"{side}_allocs_after_peak"
    when = f"{{{after}=0?right|{{{after}:plural allocation}}}} {{{after}<0?before|after}}"
    return f"{when} {peak}[ ({{{side}_free_line:at}})]"


#: When each run frees the first block of a late or an early Free: ``right after head's peak (line 201), 25 allocations before base's (line 77)``.
TIMING = _after_peak("head", "head's peak") + ", " + _after_peak("base", "base's")

#: Findings that are about a Free: one of them, several.
_FREES = {
    "missing_free": ("a missing Free", "missing Frees"),
    "extra_free": ("a Free that base lacks", "Frees that base lacks"),
    "late_free": ("a late Free", "late Frees"),
    "early_free": ("a Free that comes sooner", "Frees that come sooner"),
}
_MANY_BLOCKS = "{blocks=1?%s|{blocks:count} %s} of {size_bytes:bytes}[ {owner:whose}]"
_BLOCKS = _MANY_BLOCKS % ("a block", "blocks") + " that "


def _more(more: str, less: str, *, of_both: bool = False) -> str:
    """The template of blocks that a run has more of at its peak: ``3 more blocks of 1.00 MiB (relu) (5 instead of 2)``."""
    some = "{blocks:count}[ of {more_blocks:count}] more {more_blocks?blocks|{blocks=1?block|blocks}}"
    some += " of {size_bytes:bytes}[ {owner:whose}]"
    instead = f"({{{more}_blocks:count}} instead of {{{less}_blocks:count}})"
    none = f"{some} {instead}" if of_both else f"{_BLOCKS}only {more} has"
    unknown = f"{_BLOCKS}both have, live at {more}'s peak only" if of_both else some
    return f"[{{{less}_blocks:given}}{{{less}_blocks?{some} {instead}|{none}}}|{unknown}]"


#: The blocks of a finding of each kind.
_FINDINGS = {
    **{kind: _MANY_BLOCKS % words for kind, words in _FREES.items()},
    "released": _MANY_BLOCKS % ("an older block", "older blocks") + " that only {fate} frees",
    "opening_only_head": _BLOCKS + "only head has from before its input",
    "opening_only_base": _BLOCKS + "only base has from before its input",
    "only_head": "{at_peak?" + _more("head", "base") + "|" + _BLOCKS + "only head keeps}",
    "only_base": "{at_peak?" + _more("base", "head") + "|" + _BLOCKS + "only base keeps}",
    "elsewhere": "{explained_bytes>0?"
    + _more("head", "base", of_both=True)
    + "|"
    + _more("base", "head", of_both=True)
    + "}",
}


def _with_blocks(template: str) -> Callable[[Values], str]:
    """What words a claim on some blocks, which the template has as ``{what}``; ``frees`` is whether they are told by their Frees."""

    def worded(values: Values) -> str:
        kind = values["finding"]
        return write(template, {**values, "what": write(_FINDINGS[kind], values), "frees": kind in _FREES})

    return worded


def _first_freed(values: Values) -> str:
    """Who frees the first block and who does not; where no owner tells which it is, where it is allocated."""
    keeps, frees = values["side"], "base" if values["side"] == "head" else "head"
    kept, freed = f"{keeps} {_frees(f'{keeps}_', 'it', ' only')}", f"{frees} {_frees(f'{frees}_', _FIRST)}"
    if values.get("late_by"):
        kept = f"{keeps} {{late_by=1?one window|{{late_by:plural window}}}} later, in {{late_windows:plural window}}"
    elif not values.get("owner"):
        kept = f"{keeps} allocates it[ at {{{keeps}_alloc_line:at}}] and {kept.removeprefix(f'{keeps} ')}"
    return write(f"{freed}, {kept}{_HELD}", values)


def _in_doubt(values: Values) -> str:
    sides: dict[str, str] = {}
    for side in ("base", "head"):
        if codes := values.get(side):
            words = write("{codes:codes}", {"codes": codes[:_NAMED]}) + (", …" if len(codes) > _NAMED else "")
            sides[words] = "both" if words in sides else side
    return f"in doubt: {', '.join(f'{side} ({words})' for words, side in sides.items())}"


def _no_effect(values: Values) -> str:
    only = "[{only_%s_temporary_bytes:bytes} in %s only]"
    sides = " and ".join(filter(None, (write(only % (side, side), values) for side in ("head", "base"))))
    moved = f"the order of {plural(values['moved'], 'block')}" if values["moved"] else ""
    cancel_out = "blocks whose bytes cancel out" if values["cancel_out"] else ""
    what = "; in ".join(filter(None, (moved, f"temporaries, {sides}" if sides else "", cancel_out)))
    return f"what is kept is equal, and the runs differ in {what}" if what else "what differs adds up to nothing"


def _both_out_of_memory(values: Values) -> str:
    how = [write(_OUT_OF_MEMORY, values[side]).removeprefix("ran out of memory ") for side in ("base", "head")]
    (base, _, figures), (head, _, others) = (words.partition(": ") for words in how)
    if figures != others or not figures:
        return f"both ran out of memory: base {how[0]}; and head {how[1]}"
    return f"both ran out of memory{f' {base}' if base == head else f', base {base}, head {head}'}: {figures}"


_OUT_OF_MEMORY = str(WORDS["out_of_memory"].template)


# -- a run and its limits ------------------------------------------------------------------------------------------------------

_FLOOR = " (the floor of {allowed_bytes:bytes}{base_bytes?, {limit_bytes:change base_bytes}|})"
_CHANGED = "{base_bytes=head_bytes?|{base_bytes<0?| ({head_bytes:change base_bytes})}}"
_WENT = (
    "{metric} {compared?went from {base_bytes:bytes} to {head_bytes:bytes}, {d_bytes:signed}"
    + _CHANGED
    + "|is {head_bytes:bytes}}"
)


def _unjudged(values: Values) -> str:
    """What could not be judged, those of one reason together."""
    groups = []
    for one in values["unjudged"]:
        names = [write("[window {window:name}|{metric} of the run]", figure) for figure in one["named"]]
        groups.append(write("{names:names}[ and {more:count} more] ({reason})", {**one, "names": names}))
    return f"not judged: {', '.join(groups)}"


# -- many runs -----------------------------------------------------------------------------------------------------------------

_HIGHEST = "({%s_runs>1?{%s_runs:count} of {runs:plural run}|{%s_in}})"
_MORE_RUNS = "[ and {more:count} more]"
_SLOPE = "{figure} {slope<0?falls|grows} by {up_to?up to |}{slope:slope} per {field:name}"
_S = "{others?|s}"
_HAS = "{metric=live_bytes?keep" + _S + "|{others?have|has}}"
_DOES = "{metric=peak_bytes?hold" + _S + "|{metric=reserved_peak_bytes?reserve" + _S + "|" + _HAS + "}}"
_UNNAMED = "{metric=peak_bytes?|{metric=reserved_peak_bytes?| of {figure}}}"
_MORE_OF = "{off<0?less|more}{metric=live_bytes? to the end|" + _UNNAMED + "}"
#: What figures of several ranks are.
_PEAKS = "{metric=peak_bytes?peaks|{metric=reserved_peak_bytes?reserved peaks|"
_FIGURES = _PEAKS + "{metric=live_bytes?live bytes at the end|{figure}}}}"
_FIGURE = "{typical?typical }{figure}"
_STATUS = "{status=no_window?without the window|{status=in_doubt?in doubt|{status}}}"
_OF = "[{ranks:count} ranks|{runs:plural run}]"
_INSIDE = "[ inside {window:window}][ inside the {unit} after {after:window}]"
_END = "{how=exception?ended with a Python exception[ ({what:clipped})]|died[ of {what:clipped}]}"
_HOLDS = "{blocks:plural block} of {size_bytes:bytes}[ of {owner:name}][, held by {holder:owner}]"


def _with_runs(template: str) -> Callable[[Values], str]:
    """What words a claim on some runs, which the template has as ``{listed}``, each with what it asked for where that is known."""

    def worded(values: Values) -> str:
        return write(template, {**values, "listed": ", ".join(write(_RUN, run) for run in values.get("named", ()))})

    return worded


def _groups(values: Values) -> str:
    listed = (write("{ranks:count} of about {median:figure}", {**values, **group}) for group in values["largest"])
    apart = write("[{told_by:name} tells|no field of the paths tells]", values)
    return f"they fall into {values['groups']} groups that {apart} apart: {'; '.join(listed)}"


_MORE_HELD = "[; {at_least?at least |}{more_bytes:bytes} more is held by {holder:owner}]"
_RUN = "{run}[ (asked for {requested_bytes:bytes})][ ({what:clipped})]"


#: What begins a sentence.
_BEGIN: dict[str, Wording] = {
    # Two runs compared.
    "both_out_of_memory": _both_out_of_memory,
    "nothing_compared": "no window of one run matches a window of the other, so nothing was compared",
    "shares_little": "the runs share little: {base_unpaired_bytes:explained base_alloc_bytes} of base's bytes and "
        "{head_unpaired_bytes:explained head_alloc_bytes} of head's have no partner[; most sizes of head are "
        "those of base times {factor} (another dtype, another batch size)]",
    "explains_all": _with_blocks("all of " + _WHOLE + " is {what}" + _MANY + _ALIKE),
    "explains_most": _with_blocks("most of " + _WHOLE + ", {explained_bytes:size}, is {what}" + _MANY + _ALIKE),
    "explains_part": _with_blocks("the largest part of " + _WHOLE + ", {explained_bytes:size}, is {what}" + _MANY +
        _ALIKE),
    "outweighs": _with_blocks("{explained_bytes:size} {explained_bytes<0?less|more} is {what}" + _MANY),
    "largest_in_one": "{side}'s largest excess of one size is {explained_bytes:size}, in {blocks:plural block} "
        "of {size_bytes:size}",
    # A run and its limits.
    "not_judged": "not judged[: {reasons:listed ;}][; and {more:plural more reason}]",
    "regression": "regression{whole? in the run|[ in {window:called}]}",
    "within_limits": "within limits[: the {metric} of the run is {head_bytes:bytes}[, {d_bytes:signed} against "
        "{base_bytes:bytes}], {limit_from=budget?budget|limit} {limit_bytes:bytes}{limit_from=floor?" + _FLOOR +
        "|}]",
    # Many runs.
    "all_out_of_memory": _EVERY_RUN + " ran out of memory[, each asking for {requested_bytes:bytes}]",
    "some_out_of_memory": _with_runs("{failed:count} of {runs:plural run} ran out of memory{alike?: all with "
        "{alike:listed and}[ (each asked for {requested_bytes:bytes})]|[, each asking for {requested_bytes:bytes}]: "
        "{listed}" + _MORE_RUNS + "}"),
    "none_read": "none of {ranks:count} ranks could be read: {reason}{alike<ranks? ({alike:count} of them)|}",
    "first_to_fail": "{failed:count} of {ranks:count} ranks ran out of memory{known_by=time?, {rank:name} first by "
        "the time stamps ({lead_us:duration} before {next_rank:name}{within_clocks?, less than clocks of machines "
        "may differ by|})|{known_by=progress?, {rank:name} first by its progress ({lead_allocs:plural allocation} "
        "fewer than {next_rank:name}; time stamps do not tell)|{known_by=only?{told?|: {rank:name}}|, which of "
        "them first is not known ({rank:name} is the first in order)}}}",
    "no_spread": "{ranks:plural rank}, none with a figure for {figure}",
    "spread": "{ranks:plural rank}{measured<ranks?, {measured:count} of them with figures|}: " + _FIGURES + " of "
        "{min=max?{median:figure}, alike{bytes? to the byte|}|{close?about {median:figure}, at most {apart:figure} "
        "apart|{min:figure} to {max:figure}, median {median:figure}}}",
    "stand_out": "{ranks=1?one rank stands|{ranks:count} ranks stand} out",
    "too_few_ranks": "with fewer than four ranks, none can stand out",
    "groups": _groups,
    "none_stands_out": "no rank stands out[ among the ranks of its {peers_by:all_names}]",
}  # fmt: skip
#: What goes on with one.
_GO_ON: dict[str, Wording] = {
    # Two runs compared.
    "meanwhile": "{side} had {allocated_bytes:bytes} allocated then[ ({line:at})][, of {reserved_bytes:bytes} "
        "reserved][, largest gap {largest_gap_bytes:bytes}]",
    "no_window_judged": "no window is judged",
    "no_difference": "no difference: " + _DIFFERENCE % "the same on both sides",
    "same_work": "the same work: " + _DIFFERENCE % "alike in all that they allocate and free",
    "equal_peaks": _PEAK_OF + "both peak at {peak_bytes:bytes}" + _DEVICE,
    "head_peak": _PEAK_OF + "head peaks at {head_peak_bytes:bytes}" + _DEVICE + ", " +
        _AGAINST_BASE % (("peak_bytes",) * 2),
    "change_by_role": "by role: {roles:changes}",
    "carried_in": "{d_carried_in_bytes:signed} of that was carried in from before",
    "largest_peak_change": "the largest Δpeak is {d_peak_bytes:signed}" + _IN_WINDOW,
    "carried_in_change": _CHANGE % (("what is carried in",) * 2) + "{d_carried_in_bytes:signed}" + _IN_WINDOW,
    "reserved_change": _CHANGE % (("the reserved peak",) * 2) + "{d_reserved_peak_bytes:signed}" + _IN_WINDOW,
    "left_behind": _BUT + "head leaves {head_remaining_bytes:bytes} behind, " +
        _AGAINST_BASE % (("remaining_bytes",) * 2),
    "older_freed": _BUT + "head " + _BALANCE % (("head",) * 3) + ", base " + _BALANCE % (("base",) * 3),
    "leaves_more": _BUT + "{lasting?from {window:called} on |}{windows=1?{window:called}|head} leaves "
        "{d_remaining_bytes:bytes} more behind{windows=1?|{each? in each window| in {windows:plural "
        "window}{lasting?|, the first {window:called}}}}",
    "no_effect": _no_effect,
    "ends_with": _BUT + "head ends with {head_live_bytes:bytes}, " + _AGAINST_BASE % (("live_bytes",) * 2),
    "no_window_needs": "no window that both have needs {needs}",
    "left_in_all": "in all {d_remaining_bytes:bytes} more is left behind, in {window:called}{others? and "
        "{others:plural more window}|}",
    "open_window": "{window:called} is open and not judged: [Δremaining "
        "{d_remaining_bytes:signed}]{d_remaining_bytes?{d_rise_bytes?, |}|}[Δrise {d_rise_bytes:signed}]",
    "windows_unpaired": "{windows:plural window} of {side} {windows=1?has|have} no partner{peak_window?, and its "
        "peak is in {windows=1?it|one of them}, {peak_window:called}| ({unpaired:all_called}{windows>2?, …|})}",
    "approximate": "{window_pairs=1?the alignment is|{windows:plural window is/windows are} aligned} approximate: "
        "it costs up to {excess_bytes:bytes} more than the cheapest",
    # A run and its limits.
    "figures_over": "{over:count} of {figures:plural figure} {over=1?is|are} over the limit: [the {of_run:and} of "
        "the run]{of_run?{windows? and |}|}{windows?{windows:plural window}|}",
    "figures_within": "{figures=1?the one figure|{figures=2?both figures|all {figures:plural figure}}} judged "
        "{figures=1?is|are} within limits",
    "ends_earlier": "{judged_windows:count} of the base's {base_windows:plural window} judged, because the run ends "
        "earlier",
    "grows": "memory {until?grew|grows} by {gained_bytes_per_window:bytes} a {unit}[ from {since:short_window} [to {until:short_window}|on]], "
        "{gained_bytes:bytes} over [the last {last_windows:count} of ]{windows:units}{within_limit?, within the limit|}",
    "piles_up": "{blocks:count} × {size_bytes:bytes}[ ({owner:name})] pile up, {total_bytes:bytes}{kinds>1?, first "
        "of {kinds:plural kind}|}[; {held_in_part?at least half of them are held by {holder:owner}|{holder:owner} holds them}]",
    "figures_unjudged": _unjudged,
    "peak_may_be_higher": "the peak may be higher, because the log starts late",
    "held_and_not_needed": "what a run held when it ran out of memory is less than what it needs",
    # Many runs.
    "without_figures": _with_runs("{status=missing?{count:plural run is/runs are}|{count:count} of " + _OF +
        " {count=1?is|are}} " + _STATUS + ": {listed}" + _MORE_RUNS),
    "no_figure": "no run has a figure for {figure}",
    "one_figure": "the " + _FIGURE + " is {highest:figure} in {run}",
    "with_itself": "the " + _FIGURE + " is {highest:figure} in {run}, which is compared with itself",
    "run_against_base": "the " + _FIGURE + " is {head:figure} in {run}, {change?{change:figure} {change<0?less|more} "
        "than|as much as} in {base_run}{change? ({base:figure})|}" + _MORE_HELD,
    "same_figure": "the " + _FIGURE + " is {highest:figure} in " + _EVERY_RUN,
    "figures_range": "the highest " + _FIGURE + " is {highest:figure} " + _HIGHEST % (("highest",) * 3) + ", the lowest "
        "{lowest:figure} " + _HIGHEST % (("lowest",) * 3) + ", {apart:figure} apart",
    "runs_against_base": "{changed:count}{continues?| of {runs:plural run}} {changed=1?needs|need} "
        "{change<0?less|more}{continues?| than {base_run}}, by {changed>1?up to |}{change:figure} ({run})" + _MORE_HELD,
    "figure_not_known": _with_runs("it is not known in {listed}" + _MORE_RUNS),
    "may_be_higher": _with_runs("{ranks?they|it} may be higher in {listed}" + _MORE_RUNS + ", whose {count=1?log begins|logs "
        "begin} late"),
    "scales": _SLOPE + "{everywhere? for each {cols:name}|[ in {places:listed}]}{rows>1?{moving=rows? in all "
        "{rows:plural row}| ({moving:count} of {rows:plural row})}|}",
    "scales_not": "{figure} {steady?does not grow|does not grow steadily} with {field:name}",
    "scales_not_in": "not in {places:listed}",
    "run_stands_out": "standing out: {run}{others?, and {others:plural other}|}, {off:figure} {off<0?below|above} "
        "the median of {peers:count}",
    "ranks_without_log": "{missing=1?{rank:name} has no log|{missing:count} ranks have no log, {rank:name} the "
        "first}",
    "more_stand_out": "and {ranks:count} more",
}  # fmt: skip
#: By the kind of the claim.
WORDS_COMPARED = {
    **{kind: Words(template) for kind, template in _BEGIN.items()},
    **{kind: Words(template, "; ") for kind, template in _GO_ON.items()},
    # Two runs compared.
    "runs_in_doubt": Words(_in_doubt, place="besides"),
    "run_out_of_memory": Words(_OUT_OF_MEMORY, ". ", named="file"),
    "parting": Words("head first needs {needs} in {window:called} ({line:at}), which [leaves {d_remaining_bytes:more} "
        "behind]{d_remaining_bytes?{d_higher_bytes? and |}|}[rises {d_higher_bytes:size} "
        "{d_higher_bytes>0?higher|less}]", "; "),
    "windows_need": Words("{needing:count} of {windows:plural window} need {needs}", "; "),
    "cancels_out": Words("{needing:count} of {windows:plural window} need {needs} and {opposite:count} " + _OPPOSITE + ", the "
        "first {window:called} ({line:at}), and what they leave behind cancels out", "; "),
    "first_freed": Words(_first_freed, ": "),
    "first_untimely": Words(_FIRST + " is freed " + TIMING, ": "),
    "first_lives": Words(_FIRST + " lives for {head_lives:plural allocation} in head ({head_alloc_line:at} to "
        "{head_free_line:count}), for {base_lives:count} in base ({base_alloc_line:at} to {base_free_line:count})", ": "),
    "first_elsewhere": Words("head allocates " + _FIRST + "[ at {head_alloc_line:at}], base[ at {base_alloc_line:at}]", ": "),
    "first_in_one": Words("{freed?{side} {alloc_line?allocates " + _FIRST + " at {alloc_line:at} and " +
        _frees("", "it") + "|" + _frees("", _FIRST) + "}|no line tells of it}" + _HELD, ": "),
    "peak_may_be_earlier": Words("the true peak of {side} may be earlier", "; ", place="besides"),
    "taken_back": Words("other changes {side=head?save|add} {taken_back_bytes:bytes}", "; "),
    # A run and its limits.
    "within_limit": Words(_WENT, ": "),
    "over_limit": Words(_WENT + "; that is over the limit of {limit_bytes:bytes}{limit_from=spread? (the spread of the "
        "accepted runs)|{limit_from=floor?" + _FLOOR + "|}} by {over_bytes:exact}", ": "),
    "reserved_not_judged": Words("reserved grew from {base_bytes:bytes} to {head_bytes:bytes} ({head_bytes:change "
        "base_bytes}) and is not judged, for no limit names it (--limit reserved=2%)", ". "),
    "over_budget": Words("{metric} is {head_bytes:bytes}{d_bytes?, {d_bytes:signed} against "
        "{base_bytes:bytes}|}; that is over the budget of {limit_bytes:bytes} by {over_bytes:exact}", ": "),
    "largest_of_role": Words("the largest part of it is [held by {holder:owner}[, and made by {owner:owner}]|made by {owner:owner}]", ". "),
    "missing_window": Words("{metric}: the log has no such window; it was {base_bytes:bytes}", ": "),
    "windows_missing": Words("{missing:plural window is/windows are} missing{allowed?, which is "
        "let go|}[, {names:names}][ and {more:count} more]", "{only?: |; }"),
    # Many runs.
    "runs_ended": Words(_with_runs("{count=1?{how=cut?the log of {listed} stops|the run of {listed} " + _END + "}"
        "{at_exit? at exit|}" + _INSIDE + ", at {line:at}|{count:count} of " + _OF + " {how=cut?stop inside a "
        "step|" + _END + "}: {listed}" + _MORE_RUNS + "}"), again="; ", place="besides"),
    "stands_out": Words("{rank:name}{others? and {others:count} more[, {where},]|} " + _DOES + " {off:figure}[ to "
        "{off_to:figure}] " + _MORE_OF + " than {others?their|its} peers{blocks?, {outweighs?with "
        "{more_bytes:bytes} more in " + _HOLDS + ", and less in others|{part?{more_bytes:bytes} of it |}in " +
        _HOLDS + "}|}[ (its log is in doubt: {doubts:codes})]", ": ", "; "),
    "none_in_its_group": Words("no rank stands out in its group", ". "),
    "ended_early": Words("{several?the logs of {ranks:names} end early ({rank:name}: |the log of "
        "{rank:name} ends early (}{allocs:plural allocation}, {median_allocs:count} in that of "
        "{median_rank:name})", ". "),
}  # fmt: skip
