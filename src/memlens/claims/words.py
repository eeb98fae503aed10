"""The words of every kind of claim; ``docs/claims.md`` says what each means."""

from __future__ import annotations

from memlens.claims.template import Words

_LEFT = (
    "{device_free_bytes:bytes} left [of the {limit_bytes:bytes} that {entries?this process may have|FLAGS_gpu_memory_limit_mb allows}"
    "|on the device]"
)
_IN_USE = "[{allocated_bytes:bytes} of the {reserved_bytes:bytes} reserved were in use|{allocated_bytes:bytes} were allocated]"
_USE = "{allocated_bytes:given}" + _IN_USE + "[, with " + _LEFT + "]"
_AND_USE = "[; " + _USE + "|; there were " + _LEFT + "]"
_OUT_OF_MEMORY = (
    "[{run} ]ran out of memory[ on {device:name}] at {line:at}[{requested_bytes:given}| in {owner:short_owner}]"
    "{ended?|, and went on}"
    f"[: {{owner:short_owner}} asked for {{requested_bytes:bytes}}{_AND_USE}"
    f"|: {{requested_bytes:bytes}} were asked for{_AND_USE}|: {_USE}|: there were {_LEFT}]"
    "[; {free_bytes:bytes} were free inside {entries?segment|chunk}s{cause=fragmented?, but|,}"
    " {gaps=1?in one piece by itself|in pieces of at most {largest_gap_bytes:bytes}}]"
    "[; {elsewhere_bytes:bytes} of the device's {device_total_bytes:bytes} were neither free nor reserved by this run]"
    " ({cause=too much?"
    "{never_fits?more than [{limit_bytes:given}the limit of the process|the {device_total_bytes:bytes} that the device has in all]"
    "|[{limit_bytes:given}too much for the limit of the process|{alone?too much asked for|too much in use}]}"
    "|{cause=unknown?[{requested_bytes:given}why cannot be told from the log|how much was asked for is not in the log]"
    "|{cause}}}[; {place} of {failures:count} failures])"
)
_PILE = "{blocks:plural block} of {block_bytes:bytes}"
_WHOSE = "{before_input?[{no_stack:given} without a stack,] allocated before the first entry|[ by {owner:owner}]}"
_TIES = "[, and as many bytes in {ties:plural other group/other groups}]"
#: Who holds it, or half of it and more.
_BY_WHOM = "[, {held_in_part?at least half of it |}held by {holder:owner}]"
#: What the largest part of what is live consists of, and whose it is.
LARGEST = f"[ in {{blocks:plural block}}][ of {{block_bytes:bytes}}]{_WHOSE}{_BY_WHOM}{_TIES}"
_WHERE = "[ by {owner:owner}]{before_phases? allocated before the first phase of a {unit}|[ allocated {phase:phase}]}"

_RANGE = "{needs_bytes:range needs_most_bytes}"
_NEEDS = f"{{reserves?reserves|completes within}} {_RANGE}"
_WHO = "{refused?up to there it|it}"
_GETS_ON = "{refused?gets past {told?that|its failure[ at {refused_line:at}]}|completes}"
_ENOUGH = (
    f"{{within?: {_WHO} needs {_RANGE}|{{reserves? (without a limit it reserves {_RANGE})"
    "|, though not within all limits from there to {needs_most_bytes:near}}}"
)
_MADE = "{chunks:plural device allocation}[ instead of {chunks_as_set:count}{chunks>chunks_as_set? (slower)|}]"
_CHUNKS = f"[{{chunks:given}}; it makes {_MADE}]"

_RECOMPUTED = (
    "recomputing all {layers:count} layers would leave a peak of about {recomputed_peak_bytes:bytes} (an estimate)"
)

#: By the kind of the claim.
WORDS: dict[str, Words] = {
    # One log.
    "in_doubt": Words("in doubt: {doubts:doubts}", place="besides"),
    "out_of_memory": Words(_OUT_OF_MEMORY, named="run"),
    "run_ended": Words(
        "{how=cut?the log stops|[{side}|the run] {how=exception?ended with a Python exception[ ({what:clipped})]"
        "|died[ of {what:clipped}]}}{at_exit? at exit|}[ inside {window:window}]"
        "[ inside the {unit} after {after:window}], at {line:at}",
        place="besides",
    ),
    "growing": Words(
        "memory {until?grew|grows} from {since:window} [to {until:window}|on]: {gained_each_bytes:bytes} [every {every} {unit}s|a {unit}],"
        " {gained_bytes:bytes} in all over [the last {last_windows:count} of ]{windows:units}"
    ),
    "piling_up": Words(
        f"{{beyond?{_PILE}{_WHERE} pile up|{{most?most|{{total_bytes:bytes}} ({{total_bytes:share gained_bytes}})}} of it is in"
        f" {_PILE}{_WHERE}}}{_BY_WHOM}{_TIES}",
        joined="; ",
    ),
    "grown_by": Words(f"most of it is by {{owner:owner}}{_BY_WHOM}", joined="; "),
    "hidden_growth": Words(
        "memory grows under what comes and goes: {gained_bytes_per_window:bytes} a {unit} from {since:window} on,"
        " {gained_bytes:bytes} in all over {windows:units}"
    ),
    "no_size_piles_up": Words("no blocks of one size pile up", joined="; "),
    "live_not_growing": Words(
        "what is live after each {unit} does not {rose?keep growing|grow} over {windows:units}"
        "[: it swings between {lowest_bytes:bytes} and {highest_bytes:bytes}]"
    ),
    "level_growing": Words(
        "{level=peak?the peak of a {unit}|{level}} grows from {since:window} on, from {from_bytes:bytes} to"
        " {to_bytes:bytes}",
        joined="; ",
        again="; ",
    ),
    "peak": Words(
        "{snapshot?live when the snapshot was taken|{series?the highest peak|peak}{since_recording? since the first entry"
        "|{earlier_unknown? without what was there before the log}}}[ in {window:window}]: "
        "[{peak_bytes:bytes} allocated[, {reserved_bytes:bytes} reserved]|{reserved_bytes:bytes} reserved]"
        "{at_start?{snapshot?|, all of it there from the start}|[, at {line:at}]}"
        "[, {rise_bytes:bytes} above what was carried in]"
    ),
    "largest_at_peak": Words(f"{{total_bytes:bytes}} ({{total_bytes:share peak_bytes}}) of it{LARGEST}", joined="; "),
    "by_role": Words(
        "{told_by=stacks?by call stacks, |{told_by=steps?by its steps, }}the peak is {roles:roles peak_bytes}",
        joined="; ",
    ),
    "exists_twice": Words(
        "without {what=gradients?gradients of the step before|{what=buckets?gradients that DDP's buckets hold too"
        "|{what=states?old optimizer state beside the new|{what=weights?a second set of weights"
        "|{what=half_weights?copies of weights in half their size|a batch beside the next one}}}}}"
        "[, held by {holder:owner}][ beside {of:owner}] ({total_bytes:bytes}"
        "{what=gradients?; set them to None after step()|{what=buckets?; gradient_as_bucket_view=True|}}),"
        " the peak would be {peak_without_bytes:bytes}{at_most? or more}"
    ),
    "activations": Words(
        "[of {saved_bytes:bytes} saved for backward {total_bytes:share saved_bytes} is by {owner:owner}"
        f"[; {_RECOMPUTED}]|{_RECOMPUTED}]"
    ),
    "peak_may_come_later": Words(
        "the {entries?recording|log} ends {inside?inside this {unit}|near its peak}, so the true peak may come later",
        joined=". ",
    ),
    "reserved_idle": Words(
        "up to {reserved_peak_bytes:bytes} is reserved[ (at {line:at})] while at most {peak_bytes:bytes} is allocated;"
        f" [with {{setting}} the run reserves {_RANGE}[{{chunks:given}}, with {_MADE}]|memlens whatif tries settings that reserve less]"
    ),
    "reserved_peak": Words(
        "the most reserved is {reserved_peak_bytes:bytes}[ in {window:window}][, at {line:at}]", joined="; "
    ),
    "no_event": Words(
        "no event lies in [any of the {windows:count} windows|this window], so nothing can be said of it"
    ),
    "shrinking": Words("memory shrinks over {windows:units}"),
    "rose_late": Words(
        "memory rises by {rose_bytes:bytes} in the last {rose_windows=1?|{rose_windows} }of {windows:units}, too few to judge"
    ),
    "rose": Words(
        "[over {windows:units} memory rises {times=1?once|{times:count} times}{stays? and stays there}: {rises_bytes:rises}"
        "|memory rises from {from_bytes:bytes} to {to_bytes:bytes} in {rising_windows:count} of {windows:units}"
        " ({rose_from:window} to {rose_until:window}{warm_up?, warm-up}){stays? and stays there|, not steadily}]"
    ),
    "sawtooth": Words(
        "memory does not grow over {windows:units}: it rises and falls between {lowest_bytes:bytes} and {highest_bytes:bytes}"
        " every {period:count} {unit}s"
    ),
    "uneven": Words(
        "memory swings between {lowest_bytes:bytes} and {highest_bytes:bytes} over {windows:units},"
        " too unevenly to tell whether it grows"
    ),
    "not_growing": Words(
        "memory does not grow over {windows:units}[: it falls from {from_bytes:bytes} to {lowest_bytes:bytes}"
        "|: it swings between {lowest_bytes:bytes} and {highest_bytes:bytes}]"
    ),
    "higher_after": Words("after them it comes to {peak_bytes:bytes}", joined="; "),
    "live_at_end": Words("{live_bytes:bytes}[ in {blocks:plural block}] is live at the end"),
    "nothing_live_at_end": Words(
        "{grows?the leaked memory is freed only at exit|everything is freed at the end"
        "[, {exit_bytes:bytes} of it after the last allocation]}"
    ),
    "held_in_window": Words("{held_bytes:bytes} allocated in it is not freed in it: {blocks:plural block}"),
    "nothing_held_in_window": Words("every block allocated in it is freed in it"),
    "growth_not_judged": Words(
        "{whole?growth not checked (--whole)|[growth is not checked, because {mixed:doubts}"
        "|growth is not judged: {steps:plural complete step tells/complete steps tell} too little"
        "|{parts?only parts of steps|{entries?no annotated steps|no step lines}} found; growth not checked{by? (use --by)}]}",
        joined="; ",
    ),
    "events": Words("{events:plural event} analyzed"),
    # Logs that grow.
    "budget_exceeded": Words(
        "[{log:name}: ]{metric=growth?the windows {passed?gained|gain} {reached_bytes:bytes}[ from {since:short_window} on]"
        "|the {metric=peak?peak|most reserved} {passed?was|is} {reached_bytes:bytes}}, over the budget of"
        " {budget_bytes:bytes}[ from {line:at} on]{passed?, but no longer}"
        "[ ({more:plural more budget} exceeded)]",
        place="besides",
        named="log",
    ),
    "judged_before": Words("growth was judged {later:plural window} ago[, at {window:window}]", joined="; "),
    "held_then": Words(
        "at {line:at} {holder:owner} held {held_bytes:bytes}[ ({held_bytes:share live_bytes} of what was live)] in"
        " {blocks:plural block}[, {more_bytes:bytes} more than at {since_line:at}]",
        joined=". ",
    ),
    "oom_messages": Words("{messages:plural out-of-memory message}"),
    "nothing_read": Words("nothing was read: [{why}|nothing is written yet]"),
    "no_events_yet": Words("no event of an allocator in {lines:plural line}"),
    "no_blocks_yet": Words("no block is reported in {count:plural log} yet"),
    "log_replaced": Words(
        "the file was replaced by that of another run {times:plural time}; figures are of the last run", place="always"
    ),
    "log_rotated": Words(
        "the log continued in a new file {times:plural time}, so earlier parts may be lost; figures are of all that was read",
        place="always",
    ),
    # One block.
    "block": Words(
        "{size_bytes:bytes}, [allocated at {alloc_line:at}[ by {owner:owner}]|live before the input begins]"
        "[, freed at {free_line:at}[ {entries?by|after} {freed_by:owner}]|{freed?, and freed|, never freed}][; {holder:owner} {freed?held|holds} it]"
    ),
    "lifetime": Words("it lives for {life_events:plural event}{freed?| to the end of the log}[ ({life_us:duration})]"),
    "allocated_meanwhile": Words(
        "{meanwhile_bytes?{meanwhile_bytes:bytes} in other blocks are|nothing else is} allocated meanwhile", joined="; "
    ),
    "live_at_peak": Words("it is {at_peak?|not }live at the peak", joined=", and "),
    # Replays under other settings.
    "replay_differs": Words(
        "nothing is known of other settings; replayed as configured, this run differs from its log[ at {line:at}]: {difference}"
    ),
    "log_cut_short": Words("the log is cut short: what the run did later is not known", place="besides"),
    "needs_as_set": Words(
        f"as configured this run {_NEEDS}[; none of {{others:plural other setting}} surely needs less]"
    ),
    "setting_needs_less": Words(
        f"with {{setting}} this run {_NEEDS}, {{certain?|at least }}{{saved_bytes:bytes}} less than as configured"
        f" ({{as_set_bytes:range as_set_most_bytes}}){_CHUNKS}"
    ),
    "fewer_chunks": Words(f"with {{setting}} it makes {{chunks:plural device allocation}} and {_NEEDS}"),
    "no_setting_needs_less": Words("no setting needs less than {live_peak_bytes:near}, the most bytes live at once"),
    "completes_as_set": Words(f"as configured this run {_GETS_ON} within {{limit_bytes:near}}{_ENOUGH}"),
    "ran_out": Words("this run ran out of memory[ at {line:at}]"),
    "depends_as_set": Words(
        f"as configured this run {_GETS_ON} within {{limit_bytes:near}} in {{completing}} of {{replays}} replays only;"
        " it depends on the addresses that the device gives"
    ),
    "fails_as_set": Words(
        f"as configured this run fails within {{limit_bytes:near}}[ ({_WHO} needs {_RANGE})]"
        "[{requested_bytes:given}[ at {line:at}]; it requests {requested_bytes:bytes} there, and"
        " [{free_bytes:bytes} are free, at most {largest_free_bytes:bytes} in one piece|nothing is free in {entries?segments|chunks}]"
        "|; that much is reserved before its log begins]"
    ),
    "setting_helps": Words(f"with {{setting}} it {_GETS_ON} within {{limit_bytes:near}}{_ENOUGH}{_CHUNKS}"),
    "others_help": Words(
        "{others:plural other setting helps/other settings help} too[; with {setting} it makes {chunks:plural device allocation}]",
        joined="; ",
    ),
    "no_setting_helps": Words(
        "no setting can help: {refused?with what was refused |}{live_peak_bytes:near} are live at once"
        "[, {over_bytes:bytes} more than {with_free?was reserved and free|the limit}]"
    ),
    "no_setting_surely_helps": Words(
        f"[none of {{others:plural other setting}} surely {_GETS_ON}[; with {{setting}} {{completing}} of {{replays}} replays do]"
        "|no other setting was tried]"
        "[; it could have had {limit_bytes:near} to {limit_most_bytes:near}, and --memory SIZE says how much]"
    ),
    "others_need_less": Words(
        "{better} of {processes?{others:plural other process/other processes}|{others:plural other device}} would need less"
        " with another setting too",
        place="always",
    ),
    # What they would have done about a failure.
    "remedy": Words(
        f"{{setting}} would have let it continue within {{limit_bytes:bytes}}[{{chunks:given}}, with {_MADE}]"
    ),
    "no_remedy": Words(
        "no setting would have let it continue: with what was refused {live_peak_bytes:bytes} are live at once"
        "[, {over_bytes:bytes} more than the {limit_most_bytes:bytes} available]"
    ),
    "no_sure_remedy": Words(
        "none of {others:plural setting} of the allocator would surely have let it continue within {limit_bytes:bytes}"
        "[; it could have had up to {limit_most_bytes:bytes}: memlens whatif --memory SIZE]"
    ),
    # Several logs, or devices of one.
    "device": Words("{device}", place="heads"),
    "peaks_of_others": Words(
        "peaks of the others: {peaks_bytes:sizes}[ and {more:plural more device}]", place="always"
    ),
    "logs_out_of_memory": Words("{count:plural log} ran out of memory: {logs:names}"),
    "logs_growing": Words("memory grows in {logs:names}"),
    "logs_peaks": Words(
        "[of {count:plural log} the highest peak is {peak_bytes:bytes} in {as_high>1?{as_high:count} of them|{log:name}},"
        " the lowest {lowest_bytes:bytes} in {as_low>1?{as_low:count} of them|{lowest:name}}"
        "|{known=1?peak {peak_bytes:bytes} in {log:name}|all of {known:plural log} have the same peak, {peak_bytes:bytes}}]"
    ),
    "logs_analyzed": Words("{count:plural log} analyzed"),
    "logs_not_analyzed": Words("{count:plural log} could not be analyzed", joined="; "),
    "logs_in_doubt": Words("{count:plural log is/logs are} in doubt"),
}
