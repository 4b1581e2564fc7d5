"""Lines that speak of trouble in words that no signature knows: the first of them are kept, the plain ones apart."""

from __future__ import annotations

import re
from collections.abc import Collection

from busbw.base.secrets import shortened

MAX_STRANGE = 24
ERROR_WORDS = (
    *("error", "fatal", "fail", "abort", "exception", "panic", "denied", "refused", "unable to", "not found", "cannot"),
    *("could not", "couldn't", "timed out", "timeout ", "unreachable", "lost", "corrupt", "degraded", "mismatch"),
    *("unhealthy", "did not ", "stuck", "deadlock", "expired", "unrecognized", "not respond"),
)
_ERROR = re.compile(
    r"\b(?:error|fatal|failed|failure|fails|failing|aborted|aborting|exception|panic(?:ked)?|denied|refused"
    r"|unable to|not found|cannot|could not|couldn't|timed out"
    r"|timeout (?:expired|exceeded|reached|while|\w{2,16}ing|after|error)|unreachable"
    r"|lost|corrupt(?:ed)?|degraded|mismatch(?:ed)?|unhealthy|did not (?:get|receive|respond|answer|start|finish|join)"
    r"|(?:is|are|got|seems?|appears?) stuck|deadlock(?:ed)?|(?:has|have|is) expired|unrecognized|not respond(?:ing)?)\b"
    r"|[a-z](?:Error|Exception|Failure)(?:_\w{1,60})?\b",
    re.IGNORECASE,
)
LOGGERS = re.compile(r"\b(?:wandb|mlflow|comet_ml|neptune|cloud-init|dockerd|waagent|google_guest_agent)\b")
"""Who only writes down how a training goes: the training does not wait for them."""
_CODE = (
    r"^\s*(?:\d+: +)?[A-Za-z_][\w.]{0,80} = [A-Za-z_][\w.]{0,80}\("
    r"|^\s*(?:raise [A-Z]\w{0,60}(?:Error|Exception)?\(|except [A-Z(]|(?:async )?def \w{1,60}\(|return \w)"
)
"""A line of a program's source, as below a warning of Python or in a traceback: its names tell of no event."""
_NO_ERROR = re.compile(
    r"\b(?:no|0|without|ignor\w*) (?:error|fail)|\[[WI]\] |errors?\"? ?[:=]? ?0(?:\.0+)?(?![\w.])|debug|warning"
    r"|\b(?:failed|failures?|errors?|exception|unreachable)[\"']? ?[:=] ?"
    r"(?:false|null|none|no\b(?!\s+\w)|\[\]|[\"']{2})"
    r"|^\W{0,12}0 [a-z]|\balgbw +busbw\b|^(?:[\w.-]{1,81}: )?nvidia-smi says |"
    # A difference in numbers that rounding explains.
    r"\b(?:abs(?:olute)?|rel(?:ative)?|max(?:imum)?|mean|rms|avg)\.? (?:\w{1,12} ){0,2}err(?:or)?\W{1,3}"
    r"(?:0\.0\d{1,20}|\d(?:\.\d{1,20})?e-\d{1,3})\b(?!.{0,80}(?:fail|exceed|>))|"
    + _CODE
    + r"|could not collect|: Module Not Found"
    r"|(?:^|\s)@ +0x[0-9a-f]|^\W*\w\W{0,3} - \w|(?:^|[\s\[])[IW]\d{4} \d\d:\d\d:|(?:\b\w+=[^,=]{0,80}, ){3}"
    # What a logger puts before each line of a long message, with nothing or an indented line behind it; a frame.
    r"|\b(?:ERROR|CRITICAL|FATAL) [\d\s:.,-]{0,40}\[[\w.]{1,60}:\d{1,6}\](?:\s*$|\s{2}|\s?\t)"
    # What would be said, and when.
    r"|\berrors? (?:is|are|will be) (?:printed|reported|raised|returned|thrown) (?:if|when|unless)\b"
    r"|\bFile \"[^\"]{1,300}\", line \d",
    re.IGNORECASE,
)
ODD_WORDS = (
    *("can't", "can not", "invalid", "unsupported", "not supported", "incompatible", "insufficient", "not enough"),
    *("no such", "exhausted", "times out", "time out", "timing out", "hung", "disconnect", "dropped"),
    *("broken", "crash", "missing", "killed", "terminated", "died", "reject", "not ready", "not allowed"),
    *("not available", "unavailable", "not running", "not loaded", "not set", "not active", "inactive", "offline"),
    *("overflow", "overrun", "conflict", "duplicate", "violat", "not match", "don't match", "unexpected", "<warn>"),
    *("exit code", "exit status", "exited", "return code", "halted", "evict", "stale", "leaving", "unschedul", "dead"),
    *("unknown", "not initialized", "retry", "gave up", "giving up", "too many", "too small", "too large", "exclusive"),
    *(
        "more processes",
        "not permitted",
        "not registered",
        "is down",
        "went down",
        "not connected",
        "severity",
        "unplugged",
        "exceeds",
        "exceeded",
        "sigkill",
        "sigsegv",
        "sigabrt",
        "sigbus",
        "interrupted",
    ),
)
LEVEL = re.compile(
    r"^ERR(?:OR)?: |^\W{0,3}(?:\[\w{1,20}\]: ?)?[EF]\d{4} \d\d:\d\d:\d\d\.\d"
    r"|\d\d:\d\d:\d\d\.\d{6}: [EF] \S{1,120}:\d{1,6}\] |\] 0x0[12] -> \w{2,60}: ERR \w{4,6}:? "
    r"|\bUCX  (?:ERROR|FATAL)|\blevel=\W?(?:error|fatal)|\[(?:ERROR|FATAL|CRITICAL|error|fatal|critical)\]"
    r"|<(?:err|crit|alert|emerg)> "
    r"|\"(?:level|severity)\": ?\"(?i:error|err|fatal|critical|alert|emergency)\""
)
"""Who writes says that it is an error, whatever the words."""
_PLAIN_LEVEL = re.compile(r"(?:^|[\s|])(?:ERROR|FATAL|CRITICAL)[\s|:]")


def is_said_error(text: str) -> bool:
    """Whether who writes says that it is an error: by the level, or by a plain one before words of an error."""
    if LEVEL.search(text):
        return True
    plain = _PLAIN_LEVEL.search(text)
    return plain is not None and _ERROR.search(text, plain.end()) is not None


_CALM = re.compile(
    r"\b(?:no|0|none|without|ignor\w*|avoid\w*|in case|if) \S{0,20} ?(?:conflict|error|missing|duplicate|crash|hang)"
    r"|^\W{0,12}0 [a-z]|^(?:[\w.-]{1,81}: )?nvidia-smi says |" + _CODE + r"|debug|warning|deprecat"
    r"|(?:\b\w+=[^,=]{0,80}, ){3}|\bINFO\b|\bDEBUG\b|(?<!<)\bWARN\b"
    r"|exit(?:ed)?\b.{0,12}(?:code|status)\W{0,3}0\b"
    r"|\[[WID]\d|(?:^|\W)[WID]\d{4} |^W |\bNeMo [WI]\b|level=\W?warn|\[warn|^\W*\w\W{0,3} - \w"
    r"|\b(?:disabled|fall\w* back|instead|skip\w*|defaults?|optional|ignored|not using|will be|were not set)\b"
    r"|(?:=|: |\||(?<=s):|(?<=err):) *(?:0|no|none|n/a|false|disabled|not supported)\W*$"
    r"|(?:^|\s)@ +0x[0-9a-f]|https?://\S+$|^\s*(?:File "
    r"\"|at \w|#\s)",
    re.IGNORECASE,
)
_ASKED = re.compile(r"\s{0,8}(?!.{0,400}(?:[:=\]]\s|\d:\d))[A-Za-z\"'].{8,400}\?\W{0,3}$")
"""What somebody asks is no line of a log."""
_MARKS = (
    r"\w(?:Error|Exception|Failure)\b|\b(?:ERROR|WARN(?:ING)?|INFO|FATAL|CRITICAL|DEBUG|NVRM)\b|\d\d:\d\d|\[|::|0x[0-9a-f]"
    r"|\.(?:py|cc|cpp|cu|h|c|go|so)\b|\w=\S|(?:^|\s)/\w{1,40}/|: [a-z]{2,20}: "
)
"""What lines of programs have."""
_OWN_ACT = (
    r"(?:am|are|have|had|get|got|see|saw|run|ran|use|used|try|tried|think|want|need|suspect|believe|guess|wonder|notice"
    r"|noticed|observe|did|do|don't|started|installed|updated|upgraded|changed|moved|train|trained)"
)
_OF_WRITER = re.compile(
    rf"\s{{0,8}}(?:[>*-] )?(?=.{{12}})(?!.{{0,400}}?(?:{_MARKS}))(?:"
    r"(?:[Hh]i|[Hh]ello|[Hh]ey|[Dd]ear|[Gg]ood (?:morning|day|evening)|[Tt]hanks)\b(?!:)"
    rf"|.{{0,300}}?\b(?:[Oo]ur|[Mm]y|me|I(?:'m|'ve)|(?:I|[Ww]e) {_OWN_ACT}"
    r"|[Ww]e(?:'re|'ve)|[Ss]omebody|[Aa]ny(?:body|one))\b"
    r"|(?=.{40}).{0,200}?\b(?:ends|ended|fails|failed|crash(?:es|ed)|dies|died|stop(?:s|ped)|exit(?:s|ed)|abort(?:s|ed)"
    r"|hangs|comes up|came up) with [\"'`\u201c\u2018][^\"\u201d]{3,200}[\"'`\u201d\u2019][^\"]{0,120}:\s*$"
    r"|.{0,300}?\b(?:since (?:today|yesterday|last|this|the (?:up|change|move|re))|again and again|tonight|sometimes"
    r"|every (?:time|night|day)|randomly)\b.{0,200}"
    r"\b(?:[Ll]ogs?|[Oo]utput|[Tt]race(?:back)?|[Dd]etails)\b.{0,30}:?\s*$)"
)
"""A sentence of who posts the log, in words of a person and without any mark of a program: it is no error's message."""
_COUNTER = re.compile(
    # `rdma statistic`, perfquery, sysfs: what counts many, a signature tells.
    r"link \S{3,40}/\d{1,3} \w{4,40} \d|\w{4,40}:\.{4,60}\d{1,20}\s*$"
    r"|.{0,80}/ports/\d{1,3}/(?:hw_)?counters/\w{4,40}:\d{1,20}\s*$"
)
"""Counters since a machine's boot: that one counted something tells nothing."""
RULE = "-" * 60
_RULE = re.compile(r"(?:^|[\s:])-{60,}\s*$")
_BOXED = re.compile(
    r"\b(?:MPI|PRT?E|PRRTE|ORTE|OMPI|PMIx|DVM|MCA|mpirun|prterun|prun|mpiexec|orted|prted|daemons?|slots?|hostfile"
    r"|interfaces?|networks?|sockets?|communicator|PSM2?|netmask|ranks?|process\w*|nodes?|bind\w*"
    r"|mapp\w*|applications?|executable|rankfile|resources?|TCP networks?|hosts?|cpus?|plm|directives?)\b"
)
_TROUBLE = re.compile(
    r"\b(?:not|no|none|unable|cannot|could|fail\w*|invalid|errors?|more|fewer|lost|abort\w*|terminat\w*|unknown|missing"
    r"|neither|malformed|illegal|mismatched|improper|too (?:large|many|long|small)|conflict\w*|must|please"
    r"|bad|wrong|bigger|beyond|exceeds)\b",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"\b(?:only|must|should be|requires?d?|(?:does|is|are|do|can) not|cannot|no (?:data|such)|out of range"
    r"|not (?:possible|detected|compatible)|incompatib\w+|greater than allowed|above max|is null|bad \w+ status"
    r"|invalid|please|unknown|unexpected|longer than|ADDR_ERROR|unsupported|state is (?!active)\w+"
    r"|problems? (?:in|with)"
    r"|check if driver|not (?:yet |properly )?(?:initialized|loaded)|already (?:running|initialized)|designed to"
    r"|(?:isn|doesn|aren|can)n?'t|(?:should|work|need\w*) (?:be|only|to be)|might be too big|higher than|when expecting"
    r"|no data validated|be greater|event|field \d{1,9} value|is Available only|too (?:big|large|small|many))\b"
    r"|\w{1,40}= ?\d{1,9}, \w{1,40}= ?\d{1,9}$|^\s{0,4}null |^\s{0,4}[rs]cnt=\d",
    re.IGNORECASE,
)
"""How a program that checks machines refuses what it is asked for, or ends."""
_AT_EASE = re.compile(
    r"^\W{0,8}(?:warning|note|changing|setting \w+ size|conflicting CPU)|falling back|won't be"
    r"|: \w{1,20} (?:size )?(?:is |was )?set to \d{1,6}\s*$",
    re.IGNORECASE,
)
"""What such a program does another way, and goes on."""
_MAY_FAIL = re.compile(
    r"should not happen|\bmay (?:now|not|end up|be unable|hang|abort|fail)\b|job (?:may|will|might)"
    r"|abort|corrupt|unpredictable",
    re.IGNORECASE,
)
"""What a box that only warns says where the job may end of it."""
_NO_FAILURES = re.compile(r"\((?:no|0) (?:\w{1,20} )?(?:failures|errors|pending nodes|resource demands)\)")
"""A table of states between rules, in which nothing failed."""
_MAX_BOX = 30
_MAX_LEVEL = 400


_CUT_WARNING = re.compile(r"NCCL WARN ?.{0,12}\Z")


def is_cut_warning(line: str) -> bool:
    """Whether a log's last line holds a few letters of a warning: NCCL's shortest sentence is longer."""
    return _CUT_WARNING.search(line) is not None


CALM_WORDS = ("warning", "debug")
_THROWN = re.compile(r"(?:^|[\s.\]>:|)])[A-Z]\w{0,60}(?:Error|Exception): \S")
"""What a program ends with, though its advice speaks of debugging."""


def _words_in(line: str) -> set[str]:
    lowered = line.lower()
    found = {"level"}
    if any(word in lowered for word in ERROR_WORDS):
        found.add("error")
    if any(word in lowered for word in ODD_WORDS):
        found.add("odd")
    if any(word in lowered for word in CALM_WORDS):
        found.add("calm")
    return found


def _is_error(line: str, words: Collection[str]) -> bool:
    """Whether the line says that it is an error, by its words or by its level."""
    if "error" in words and _ERROR.search(line):
        return True
    ends = line if len(line) <= _MAX_LEVEL else line[:_MAX_LEVEL] + line[-20:]
    return "level" in words and LEVEL.search(ends) is not None


class Trouble:
    """What was kept: `strange` are lines with words of an error, `odd` those with words that may be of one."""

    def __init__(self) -> None:
        self.strange: list[tuple[int, str]] = []
        self.odd: list[tuple[int, str]] = []
        self._box: list[str] | None = None
        self._known = False

    def add(self, line: str, number: int, words: Collection[str] | None = None, *, checker: bool = False) -> bool:
        """Whether a line of which no signature speaks is kept; `checker`: a program wrote it that checks machines.

        `words` names which of the words "error", "odd" and "level" stand for are in the line; None: look for them.
        """
        if len(self.strange) >= MAX_STRANGE:
            return False
        kept = self._list_for(line, _words_in(line) if words is None else words, checker=checker)
        if kept is None or _OF_WRITER.match(line):
            return False
        kept.append((number, line.strip()))
        return True

    def _list_for(self, line: str, words: Collection[str], *, checker: bool) -> list[tuple[int, str]] | None:
        """Which of both lists takes the line, if any."""
        if _ASKED.match(line) or _COUNTER.match(line):
            return None
        calm = "calm" in words and "NCCL WARN" not in line and "<warn>" not in line and not checker
        thrown = calm and _THROWN.search(line) is not None
        if calm and not thrown:
            return None  # both expressions of what tells of no error hold these words
        if "NCCL WARN" in line or (_is_error(line, words) and (thrown or not _NO_ERROR.search(line))):
            return self.strange
        odd = len(self.odd) < MAX_STRANGE and (
            ("libfabric:" in line and "<warn>" in line)
            or ("odd" in words and not _CALM.search(line))
            or (checker and len(line) < _MAX_LEVEL and _REFUSES.search(line) and not _AT_EASE.search(line))
        )
        return self.odd if odd else None

    @property
    def boxed(self) -> bool:
        """Whether a box is open."""
        return self._box is not None

    def ruled(self, line: str, number: int, *, known: bool) -> None:
        """Follow the boxes between rules of dashes in which Open MPI, PRRTE and Slurm explain an end."""
        if RULE in line and _RULE.search(line):
            if self._box and not self._known:
                self._close(" ".join(" ".join(self._box).split()), number)
            self._box = [] if not self._box else None
            self._known = False
        elif self._box is not None:
            self._known = self._known or known
            self._box.append(line.strip())
            if len(self._box) > _MAX_BOX:
                self._box = None

    def _close(self, text: str, number: int) -> None:
        """The box as one sentence, in the place of its lines."""
        if (
            len(text) >= 40
            and _BOXED.search(text)
            and _TROUBLE.search(text)
            and not text.upper().startswith(("NOTE", "BY "))
            and not _NO_FAILURES.search(text)
        ):
            assert self._box is not None
            start = number - len(self._box) - 1
            said = (start + 1, f"MPI says: {shortened(text, 900)}")
            warns = text.upper().startswith("WARNING")
            if not warns or _MAY_FAIL.search(text):
                self.strange = [each for each in self.strange if each[0] < start]
                (self.odd if warns else self.strange).append(said)
