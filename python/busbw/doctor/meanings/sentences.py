"""What an error says by the form of its sentence: what is refused, what is wanted, and so what mends it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.lines.triggers import alternatives

_LOOK = 700
_MOST = 70
_WORDS = r"(?:[^.;!?\n]|\.(?=[\w(/*]))"
"""A character of a phrase: a dot stands within names and numbers alone."""
_LONG = 110


@dataclass(frozen=True, slots=True)
class Form:
    """Words in which a program says one kind of thing; {names} in meaning and cure stand for their groups."""

    words: re.Pattern[str]
    meaning: str
    cure: str


# <a> stands for the shortest phrase, <b!> for all up to the end of the sentence. The first that fits decides.
_ROWS = r"""
\bgot an unexpected keyword argument '<k>'|unexpected keyword '<k>' ; the installed version does not know the \
argument {k} ; install the version of that package that the caller was written for, the same on all nodes; or leave \
{k} out
^<a> failed to import ; {a} is of another version than what imports it ; install the version of {a} that the \
program was built for (pip install), the same on all nodes
cannot import name '<a>' from '<b>' ; the installed {b} has no {a}: it is of another version ; install the version \
of {b} that the program was written for (pip show), the same on all nodes; remove a second copy that shadows it
module '<b>' has no attribute '<a>' ; the installed {b} has no {a}: it is of another version ; install the version \
of {b} that the program was written for (pip show), the same on all nodes; remove a second copy that shadows it
'NoneType' object (?:has no attribute|is not) ['\w ]{1,40} ; something that should be there is not (None) ; look at \
what the last frame of your own code passes: a path, config key or component of the model or tokenizer that is not \
set, a file that was not found, a function that returns nothing on this rank
^<b> (?:must|should|has to|needs to|does not|doesn't) (?:evenly |exactly )?divide <a!> ; {a} must be a multiple of \
{b} ; choose {b} so that it divides {a}{divisors}, or pad or change {a} to a multiple of it, on all ranks alike
^<a>(?: \(<x>\))?(?:,? (?:must|should|has to|have to|needs to|is|are|but is|was)(?: not)?(?: be)?| cannot be| can't \
be| not)? (?:evenly |exactly )?(?:divisible by|divided by|a multiple of|multiple of) <b!> ; {a} must be a multiple \
of {b} ; choose {b} so that it divides {a}{divisors}, or pad or change {a} to a multiple of it, on all ranks alike
\b(?:divisible by|a multiple of|must (?:evenly )?divide) <b!> ; a size is no multiple of {b} ; choose sizes so that \
they are multiples of {b}; pad, or change the degree that divides them, on all ranks alike
\bpip3? install <p>(?:[`'"]|$|[.,;)]\s|\s[-(]|\s(?:to|and|or|in)\b) ; a package is missing or too old: {p} ; pip \
install {p} in the environment or image that all nodes start, or switch off what needs it
^<a> (?:requires?|needs?|depends on) (?:the )?<b> (?:to be |is |package )?(?:installed|package|library) ; {b} is \
not installed, and {a} needs it ; install {b} in the environment or image that all nodes start, or do without {a}
^<a> (?:is|are|was) not (?:installed|importable|compiled)\b|^(?:please )?install <a>(?: (?:to|first|and|from)\b|$) \
; {a} is not installed there ; install {a} in the environment or image of all nodes, or switch off what needs it
(?:has been|was|is|are) (?:removed|deprecated|renamed|dropped)\b|no longer (?:supported|available|exists?|accepted) \
; the program was written for an older version: what it uses was removed ; use what the sentence names in its \
place, or install the older version on all nodes
^<a> (?:and|or|with|together with) <b> (?:are mutually exclusive|(?:cannot|can't|can not|must not|may not|should \
not) (?:both )?be (?:both |set|used|specified|provided|given|combined|enabled)|are (?:not compatible|incompatible)) \
; {a} and {b} exclude each other ; set only one of the two: drop {a} or {b}
mutually exclusive|exactly one of <b!>|only one of <b!>|cannot both|not both\b|at most one of <b!> ; settings \
exclude each other ; set only one of those that the sentence names
^(?:at least one of|either|one of) <b!> ; one of several settings is missing ; set one of {b}
^<a> (?:requires?|needs?|depends on|relies on) (?:that )?<b!> ; {a} needs {b} ; give it that ({b}), or switch {a} \
off
^<a> (?:is|are)(?: currently)? only \
(?:supported|available|valid|implemented|allowed|compatible|used|possible|applicable|enabled) \
(?:with|for|on|in|by|when|if|under|from|using)? ?<b!> ; {a} works only with {b} ; set {b}, or do without {a}
^<a> (?:can|may|should|must) only be (?:used|set|enabled|called|specified|run|applied) \
(?:with|for|on|in|by|when|if|under|once|after)? ?<b!> ; {a} works only with {b} ; set {b}, or do without {a}
^<a> (?:currently )?(?:only|solely) (?:currently )?(?:supports?|accepts?|allows?|works? with|handles?|takes?) <b!> \
; {a} supports only {b} ; use {b} there, or another choice than {a}
^(?:currently,? )?only <b> (?:is|are)(?: currently)? (?:supported|allowed|implemented|available|accepted|valid)\b ; \
only {b} is supported ; use {b} in that place, or another part of the program that supports yours
^<a> (?:(?:is|are|was|been) )?(?:currently |still )?not (?:yet |currently |being \
)?(?:supported|implemented|compatible|available|allowed|valid|usable)(?: yet)?(?: \
(?=(?:with|for|on|in|by|when|if|under|using|while|at|unless|without|outside|inside|to|as)\b)<b!>)? ; {a} is not \
supported {b} ; do without {a} there{instead}: another setting, backend or type of numbers, a newer version of the \
program, or another GPU
^<a> (?:does not|doesn't|do not|don't|cannot|can't|can not) (?:yet |currently )?(?:supports?|implement|handle|work \
(?:with|on|for|without)|run (?:on|with)|accept|allow|use) <b!> ; {a} does not work with {b} ; do without one of the \
two: change {b}, or take another choice than {a}
^<a> (?:currently )?(?<!not )(?<!n't )supports? (?!for\b)<b!> ; {a} supports only {b} ; use {b} there, or another \
choice than {a}
^(?:<a> )?(?:(?:is|are) )?(?:incompatible|not compatible) (?:with )?<b!> ; {a} does not fit {b} ; change one of the \
two so that they fit
\bunsupported (?:\w{1,20} ){0,2}?<a>(?:[:=,(;]|\.(?!\w)| for | in | with | on |$) ; this {a} is not supported ; \
choose a supported {a}{instead}, or a newer version of the program
(?:\b(?:unknown|unrecognized|invalid|unhandled|malformed)|^(?:illegal|bad|unexpected|wrong|incorrect)) \
<a>(?:[:=,(;]|\.(?!\w)| for | in | with | on | '| "|$) ; this {a} is refused ; correct the spelling and value of \
{a}{instead}: the program's help or example shows it
(?<!the )(?<!than )(?<!as )\bexpect(?:ed|s|ing)? <b>[,;]? (?:but )?(?:instead \
)?(?:got|found|received|was|has|have|had|is|are|instead|actual|given|saw)\b ?:?<c!> ; {b} is wanted, and {c} came ; \
pass {b} there: see at the last frame of your own code where {c} comes from (config, data, checkpoint), on that \
rank
(?<!the )(?<!than )(?<!as )\b(?:expected|expects?|expecting) (?!to\b)<b!> ; {b} is wanted and did not come ; pass {b} \
there: see at the last frame of your own code what comes instead (config, data, checkpoint), on that rank
^you (?:must|should|has to|have to|needs? to) <b!> ; something is missing or not as it must be: {b} ; {b}{when}
^<a> (?:must|should|has to|have to|needs? to)(?: also)? be \
(?:set|given|provided|specified|defined|passed|called|initialized|configured|enabled|present|installed|used\
|supplied)\b \
; {a} is not set ; set {a}{when}, on all ranks alike
^<a> (?:must|should|has to|have to|needs? to)(?: all| also| both| each)? (?:be|equal|match) <b!> ; {a} is not as \
the program needs it ({b}) ; set {a} so that it is {b}{instead}{when}; compare with the config of a run that worked
^<a> (?:must|should|has to|have to|needs? to)(?: all| also| both| each)? <b!> ; {a} is not as the program needs it \
({b}) ; see to it that {a} {b}{instead}{when}; compare with the config of a run that worked
^<a> (?:is|are|was|were|has|have|had) (?:not|never)(?: yet)?(?: been)? (?:initiali[sz]ed|set|set \
up|started|ready|running|loaded|configured|provided|specified|given|defined|created|built|called|prepared\
|registered|enabled|found)\b \
; {a} is not there yet ; set or start {a} before that call, in each process, and compare the order of calls with \
the program's own example
^<a> (?:is|are) required ?<b!> ; {a} is missing, or of another version ; install or set {a}, on all ranks alike: it \
is needed {b}
^<a> (?:is|are) required\b ; {a} is missing, or of another version ; install or set {a}, on all ranks alike
^(?:missing|no) <a>(?:[:=(]| (?:for|in|from|at|to|on|with)\b| (?:was|were|is|are)?(?: ?found| ?available| \
?provided| ?specified| ?given| ?set| ?exists?)\b|$) ; {a} is missing ; give or set {a}, and see that config, data \
and checkpoint of that rank hold it
^<a> (?:is|are|was|were)? ?(?:missing|absent|empty|None|not present)\b ; {a} is missing or empty ; give or set {a}, \
and see that config, data and checkpoint of that rank hold it
^<a> (?:cannot|can not|can't|must not|should not|may not) be (?:empty|None|null|zero|negative|<b!>) ; {a} has a \
value that is refused ; give {a} another value{instead}; compare with the config of a run that worked
(?:cannot|can't|can not|could not|couldn't|couldnt|unable to|failed to|fail to) \
(?:find|locate|resolve|determine|infer|detect|discover|identify) (?:the |a |an |any )?<a>(?: \
(?:in|for|at|on|from|under|within)\b <b!>|$|[.:;]) ; {a} was not found{where} ; see that {a} is there{where}, on \
that rank's host too (ls): spelling, path, version
^<a> (?:was |is |were |are )?(?:not (?:be )?found|not exist|does not exist|doesn't exist|do not exist|not in)\b(?: \
(?:in|for|at|on|from|under|within)\b)? ?<b!> ; {a} is not there ; see that {a} is there, on that rank's host too \
(ls): spelling, path, version
^<a> does(?: not|n't) exist|^<a> (?:not found|not exist)|^<a> is not in\b ; {a} is not there ; see that {a} is \
there, on that rank's host too (ls): spelling, path, version{instead}
^<a> (?:mismatch\w*|inconsisten\w*|(?:does not|do not|doesn't|don't|must) match|is not equal|are not equal|not \
equal|is not (?:consistent|identical|the same)|!=|differs?\b|disagree\w*) \
?(?:between|with|to|from|for|in|across|of|:)? ?<b!> ; {a} does not match ({b}) ; make both alike on all ranks: one \
config, checkpoint and version; print {a} per rank to see which one differs
\bmismatch\b|does not match|do not match|inconsistent ; two things that must be alike differ ; make both alike on \
all ranks: one config, checkpoint, data and version; print what the sentence names per rank
^<a> (?:is|are|was|were|has|have|had) (?:been )?already (?:been )?<b!> ; {a} was there before ; do it once in each \
process; remove or name anew what an earlier run left behind
\b(?:duplicate\w*|conflict\w*) <a>(?:[:=,(]| for | in | with | on |$) ; {a} is there twice ; keep one of the two, \
and name the other anew
^<a> (?:exceeds?|is (?:larger|greater|more|bigger|longer|higher) than|are more than|is too (?:large|big|long|high)) \
?<b!> ; {a} is too large (limit: {b}) ; lower {a}, or raise its limit ({b})
^<a> (?:is (?:smaller|less|lower|fewer|shorter) than|is too (?:small|low|short)) ?<b!> ; {a} is too small ; raise \
{a} to at least {b}, or lower what asks for it
\bout of (?:range|bounds)\b|beyond the|outside (?:of )?(?:the )?(?:valid|range)|at least|at most|\bexceed|too \
(?:large|small|many|few|long|short) ; a number is outside of its limits ; bring the number that is named within the \
limits that the sentence tells, on all ranks alike
\b(?:failed|unable|could not|couldn't|fails) (?:to )?<a>(?:[:=]| because | due to | since | as )<b!> ; {a} failed: \
{b} ; mend what stands behind the colon ({b}); then do the same by hand on that host to see that it works
\b(?:failed|unable|could not|couldn't|fails) (?:to )?<a!> ; {a} failed ; do that by hand on that rank's host, whose \
message tells more; see the lines before this one
\b(?:cannot|can't|can not|may not|must not|not allowed to|unable to) <a> \
(?:with|when|while|without|because|since|if|before|after|for|on|in|from|as|unless|until|using|to) <b!> ; one may \
not {a} ({b}) ; change what stands in the way ({b}), or leave that call or setting out
\b(?:cannot|can't|can not|may not|must not|not allowed to|not permitted to) <a!> ; one may not {a} ; leave out the \
setting or call that asks for it, or give it another value
^<a> (?:(?:was|is|are|were|has been) \
)?(?:requested|given|set|passed|enabled|provided|specified|found|configured|asked for|needed),? but <b!> ; {a} is \
asked for, but {b} ; mend the second ({b}), or leave {a} out
^<a> (?:has|have|had|contains?|carr(?:y|ies)|holds?|provides?|exposes?|produced|returned) no <b!> ; {a} lacks {b} ; \
give {a} what it lacks ({b}): a complete copy, in the version that the program expects
^<a> (?:does not|doesn't|do not|don't|did not|didn't) \
(?:have|contain|include|provide|expose|embed|define|match|satisfy|produce|return|equal|fit) <b!> ; {a} lacks or \
does not fit {b} ; give {a} what is wanted ({b}): the right file, config or version, on all ranks alike
^<a> (?:did not|didn't|has not|have not|never|was not|were not|are not|failed to) <b!> ; {a} did not {b} ; see why: \
the log of {a} itself, and the lines before this one
^needs? (?:either )?<b!> ; something is missing ({b}) ; give {b}
^<a> ?(?:!=|==|<=|>=| < | > ) ?<b!> ; sizes do not fit: {a} and {b} ; make {a} and {b} fit each other, on all ranks \
alike
^<a>,? but <b!> ; two things do not fit: {a}, but {b} ; change one of the two so that they fit: {a}, or {b}
^<a> (?:is|are|was|were) (?:still \
)?(?:forbidden|disabled|read-?only|full|truncated|corrupt\w*|closed|busy|pending|stale|incomplete|broken\
|dangerous|unavailable|unreachable)\b \
; {a} cannot be used as it is ; mend {a}, or take another: free, complete or unlocked; look at what was done with \
it before
^<a> (?:can|may) only <b!> ; {a} works only so ({b}) ; use it so ({b}), or do without {a}
^<a> not (?:been \
)?(?:initiali[sz]ed|provided|set|specified|given|defined|configured|ready|loaded|started|added|registered|installed)\b \
; {a} is not there yet ; set or start {a} before that call, in each process
^<a> (?:failed|fails)(?:: <b!>|[.;]|$) ; {a} failed: {b} ; mend what it names ({b}); see the lines before this one \
for what {a} itself says
^<a> already exists?\b ; {a} is there from an earlier run ; remove or rename it, or allow that it is overwritten
^<a> (?:is|are) (?:invalid|incompatible|wrong|malformed|illegal|inconsistent)\b ; {a} is refused ; correct \
{a}{instead} and compare with the config of a run that worked
(?:^|[;,] )(?:please )?(?:use|pass|set|call|provide|supply) <b!> ; the program asks for another call or setting \
({b}) ; do that ({b})
^<a> (?:is|are) needed(?: (?:for|to|by|in)\b)? ?<b!> ; {a} is needed ; give or install {a}, on all ranks alike
^(?:tried|attempt\w*|trying) to <a!> ; the program tried what may not be done: {a} ; leave out the setting or call \
that asks for it, or do first what it needs
^<a> (?:is|are|was|were) (?:not \
|un)(?:equal|aligned|contiguous|callable|valid|safe|known|initialized|ready|sorted|unique|reachable|usable|balanced)\b \
; {a} is not as it must be ; correct {a}{instead} on all ranks alike, and compare with a run that worked
^<a> while <b!> ; {a}, while {b} ; make the two alike on all ranks: {a}, and {b}
^(?:empty|unequal|uneven|partial|incomplete|leftover|extra|stale|redundant) <a>(?:[:=,(;]|\.(?!\w)|$) ; {a} is \
empty, incomplete or too much ; look at what is passed as {a} on that rank
^<a> is not (?:an? |the |one of |in )<b!> ; {a} is no {b} ; pass what is wanted ({b}) there; the last frame of your \
own code shows where it comes from
"""
_SLOT = re.compile(r"<([a-z])(!?)>")
_SPACE = re.compile(r"\s+")
_GOT = re.compile(
    r"[,;(]? ?\b(?:but )?(?:got|found|received|gave|given|instead got)\b ?:?(?P<now>.{1,80})$", re.IGNORECASE
)
_WHEN = re.compile(
    r"^(?P<when>(?:if|when|while|since|for|with|under|in|because|using|as) [^,]{3,120}), ", re.IGNORECASE
)


def _slot(found: re.Match[str]) -> str:
    return rf"(?P<{found[1]}>{_WORDS}{{1,{_LONG if found[2] else _MOST}}}{'' if found[2] else '?'})"


def _forms(row: str) -> Iterator[Form]:
    """One form for each alternative at the top, since a name may stand once in an expression."""
    words, meaning, cure = re.split(r"\s+;\s+", row, maxsplit=2)
    for part in alternatives(words):
        yield Form(re.compile(_SLOT.sub(_slot, part), re.IGNORECASE), meaning, cure)


FORMS = tuple(form for row in _ROWS.replace("\\\n", "").strip().splitlines() for form in _forms(row))
_BEGINS = re.compile(r"(?<=[.!?])\s+(?=[A-Z`'\"(\[])|\n")
_LEAD = re.compile(
    r"^(?:\[[^\]]{1,40}\] ?|[\w.]{1,60}(?:\[[^\]]{0,40}\])?: |(?:error|fatal|note|assertion failed|check failed): )",
    re.IGNORECASE,
)
_REPORT = re.compile(
    r"^\W*(?:please |kindly )?(?:open|file|report|submit|raise|create|contact|let)\b.{0,30}\b(?:issue|bug"
    r"|ticket|us|know)\b",
    re.IGNORECASE,
)
_CHOICES = re.compile(
    r"\b(?:one of|choose (?:from|between|one of)|valid(?: \w{1,20}){1,2}(?: (?:are|is))?|available(?: [\w-]{1,20}){0,2}"
    r"(?: are)?|supported(?: [\w-]{1,20}){0,2}(?: are)?|must be in|allowed(?: \w{1,20})?(?: are)?|options(?: are)?"
    r"|choices(?: are)?)(?: ?[:=] ?| (?=[\[({'\"]))(?P<all>[^\n]{2,400}?)(?:[\])}.;]|$)|\bone of "
    r"(?P<some>[^\n]{2,400}?)"
    r"(?:[.;]|$)",
    re.IGNORECASE,
)
_VALUE = re.compile(r"\d{1,9}")


_SHORT_NOT = re.compile(r"\b(was|is|are|has|have|had|were|did|does|do|should|must)n't\b", re.IGNORECASE)
_ASSERTED = re.compile(
    r"^.{0,200}?(?:\bAssertion failed: .{0,200}?\. (?=\S)|\[enforce fail at [^\]]{1,120}\]\.? ?(?:\S{1,80}\. )?"
    r"|\b(?:Check failed|TORCH_CHECK failed): .{0,120}?\) (?:is false: ?)?(?=[A-Za-z])"
    r"|\.(?:cc|cpp|cu|cuh|h):\d{1,6}[\]:)] ?)"
)
"""What C++ puts before a sentence: where it stands, and the condition."""


def meant(text: str) -> tuple[str, str] | None:
    """Meaning and cure of the first sentence whose form is known; `text` is without the exception's name."""
    text = _SHORT_NOT.sub(r"\1 not", _ASSERTED.sub("", text[:_LOOK]))
    for sentence in _BEGINS.split(text)[:6]:
        whole = "" if _REPORT.search(sentence) else sentence.strip()
        plain = _LEAD.sub("", whole)
        condition = _WHEN.match(plain)
        bare = plain[condition.end() :] if condition else plain
        for part in dict.fromkeys((bare, plain, whole)):
            for form in FORMS if len(part) > 5 else ():
                if found := form.words.search(part):
                    when = f" {condition['when']}" if condition and part == bare else ""
                    return _filled(form, found, text, when)
    return None


def _filled(form: Form, found: re.Match[str], text: str, when: str) -> tuple[str, str]:
    slots = dict.fromkeys(("a", "b", "c", "k", "p", "x"), "")
    said = {name: part for name, part in found.groupdict().items() if part}
    got = next((each["now"] for part in said.values() if (each := _GOT.search(part))), "")
    slots |= {name: _phrase(part if name == "c" else _GOT.sub("", part)) for name, part in said.items()}
    choices = _CHOICES.search(text)
    listed = _phrase((choices["all"] or choices["some"]) if choices else "")
    slots["instead"] = f" (one of: {listed})" if listed else f" (now: {_phrase(got)})" if _phrase(got) else ""
    slots["where"] = f" in {slots['b']}" if slots["b"] else ""
    slots["when"] = when
    slots["divisors"] = _divisors(slots["a"] + slots["x"], slots["b"])
    cure = form.cure
    if slots["divisors"] == "" and slots["b"].isdecimal() and "{divisors}" in cure:
        cure = "pad or change {a} to a multiple of {b}, on all ranks alike"
    meaning, cure = (_SPACE.sub(" ", each.format_map(slots)).replace(" ()", "") for each in (form.meaning, cure))
    return meaning.strip(), cure.strip()


def _phrase(said: str) -> str:
    """The phrase as it stands in another sentence."""
    short = shortened(clean(_SPACE.sub(" ", said.replace("`", ""))).strip(" ,:;=!"), _LONG).removeprefix("- ")
    for quote in "'\"":
        short = short if short.count(quote) % 2 == 0 else short.replace(quote, "")
    return re.sub(r"^(?:the|an?|but|your|this|its) ", "", short, flags=re.IGNORECASE)


def _divisors(whole: str, part: str) -> str:
    """Numbers near the refused one that do divide, where both are told."""
    sizes = [int(each) for each in _VALUE.findall(whole)[-1:] + _VALUE.findall(part)[-1:]]
    if (
        len(sizes) < 2
        or part.isdecimal()
        or not 0 < sizes[0] <= 1 << 20
        or not 1 < sizes[1] <= 1 << 20
        or sizes[0] % sizes[1] == 0
    ):
        return ""
    fit = [each for each in range(min(sizes), 0, -1) if sizes[0] % each == 0][:3]
    return f" (such as {', '.join(map(str, fit))})" if fit and fit != [1] else ""
