"""Lines that hold words of errors and tell of no event: code, tests that passed, help, manuals, counters of zero."""

from __future__ import annotations

import re
from collections import deque

_VERBS = (
    r"(?:Fix(?:e[sd])?|Resolve[sd]?|Handle|Add|Remove|Revert|Merge|Avoid|Prevent|Improve|Support|Document|Allow|Do not"
    r"|Don't|Bump|Update|Explain|Clarify|Work around)"
)
_LOGGERS = r"(?:raise|except|print|logger|logging|log|warnings|return|if|elif|else|assert|def|with|try|for|#|\"|')\b"
_LINES = (
    # C and C++: cases of a switch, members of an enumeration, comments, statements.
    r"^\s*(?:case [\w:]{1,80} *:|default *:) *return\b",
    r"^\s*\w{3,80} *= *(?:0x[\da-f]{1,8}|\d{1,9}), *(?:/[/*].*)?$",
    r"^\s{1,40}\* @[a-z]|^\s*(?:/\*|//) ",
    r"^\s*(?:WARN|INFO|ERROR|LOG\w*|ABORT|f?printf|snprintf|throw|return|if|NCCLCHECK\w*|CUDACHECK\w*|TORCH_CHECK\w*"
    r"|EXPECT_\w+|ASSERT_\w+)\b ?[(\"].{0,400}[;{]\s*$",
    # Python's statements, where no traceback shows them.
    r"^[-+]?\s*(?:raise [A-Z][\w.]{0,80}\(.{0,300}\)|except [\w., ()]{1,120}(?: as \w{1,40})?:)\s*$",
    r"^[-+]?\s*(?:logger|logging|log|warnings|print)(?:\.\w{1,20})?\(f?[\"'].{0,300}\)\s*$",
    r"^\s*[A-Z][A-Z_]{2,60} = [(\[]{0,2}[\"'].{0,400}[\"'][)\],]{0,2}\s*$",
    # Shell: what would be printed, and what is looked for.
    r"^\s*(?:echo|printf) [\"'].{0,300}[\"'](?: >&2)?(?:\s*[;|&}].{0,80})?$"
    r"|^\s*(?:if|elif|while) .{0,300}; (?:then|do)$",
    r"^\s*scontrol update .{0,200}reason=|^(?-i:RUN|CMD|ENTRYPOINT|HEALTHCHECK) \S",
    # What grep prints of sources and manuals.
    r"^[\w./+-]{1,200}\.py[:-]\d{1,6}[:-]\s*" + _LOGGERS,
    r"^[\w./+-]{1,200}\.(?:c|cc|cpp|cxx|cu|h|hpp|cuh|inl|go|rs|java|ts|js)[:-]\d{1,6}[:-]\s*"
    r"(?:\w[\w:.>-]{0,60}\(|[\"*/]|(?:case|return|throw|if|else|static|const)\b).{0,400}[;{,\"]\s*$",
    r"^\s*(?:return [\w:]{1,80}|goto \w{1,40}|break);\s*$",
    r"^[\w./+-]{1,200}\.(?:md|rst|txt|adoc|ya?ml|toml|html?|ipynb)[:-]\d{1,6}[:-]",
    # Tests that passed, or were meant to fail: pytest, GoogleTest, CTest, unittest, Go, Rust.
    r"\.py::.{1,300} (?:PASSED|SKIPPED|XFAIL|XPASS)(?:\s{1,80}\[ {0,2}\d{1,3}%\])?\s*$"
    r"|::\S{1,200} +(?:PASSED|SKIPPED|XFAIL|XPASS)\b|^(?:\[gw\d{1,4}\].{0,20} )?(?:PASSED|SKIPPED|XFAIL) \S{1,200}::",
    r"^\W{0,3}\[ (?: {7}OK|RUN {5}| {2}PASSED|  SKIPPED|-{10}) ?\]",
    r"\bTest +#\d{1,6}: \S{1,120} \.{2,}.{0,4}Passed\b|^\s{1,8}Start +\d{1,6}: \S{1,200}\s*$",
    r"^(?:test )?\S{1,200}(?: \([\w.]{1,200}\))? \.\.\. (?:ok|skipped\b.{0,80})$|^\s*--- (?:PASS|SKIP): ",
    # Exposition of metrics, and rules that would raise an alert.
    r"^# (?:HELP|TYPE) [A-Za-z_:]\w{2,200} ",
    r"^\s*-? ?(?:alert|expr|runbook_url): ",
    r"\"(?:pattern|regexp?|expr|query|promql)\": ?\"|\"\w{0,40}(?:Error|Fail)\w{0,40}\": ?(?:true|false)\b",
    # Counters of what was corrected; of memory a signature says how many are too many.
    r"^\s*(?:SRAM )?Correctable(?: Errors?)? *: *\d{1,9}\s*$",
    # Histories and release notes.
    r"^(?:[*|\\/ ]{0,12})?[\da-f]{7,12} (?:\([^)]{1,80}\) )?(?:[a-z]{2,10}(?:\([\w/., -]{1,40}\))?!?: |"
    + _VERBS
    + r"\b)",
    r"^\W{0,6}(?:Fix(?:e[sd])?|Resolve[sd]?):? (?:an? |the |some |rare |potential )?(?:\w[\w-]{0,30} ){0,3}"
    r"(?:hang|crash|bug|issue|error|timeout|leak|race|deadlock|segfault|segmentation|problem|failure|failed|corruption|\"|`)",
    # Options of a program, and settings that speak of what would be done.
    r"^\s{2,}(?:-\w, )?--?[A-Za-z][\w-]{1,60}(?:[ =,]\S{1,80}){0,3}?\s{2,}\S",
    r"^(?:export )?[A-Za-z][A-Za-z0-9_]{0,60}"
    r"(?-i:ERROR|FAULT|TIMEOUT|KILL|CRASH|FAIL|ABORT|EXCEPTION|OOM|DUMP|RETRY|WARN|warn|error)[A-Za-z0-9_]{0,60}=\S*$",
    r"^(?:kernel|vm|net|fs)\.[\w.]{3,80} = \S{1,80}$",
    r"^\s*(?-i:(?:NCCL|UCX|NVSHMEM|GLOO|OMPI_MCA)_[A-Z][A-Z0-9_]{2,60})\s*$",
    # What a package manager does, and rows of a table of settings.
    r"^(?:#\d{1,4} [\d.]{1,10} )?(?:Setting up|Unpacking|Selecting previously|Preparing to unpack|Get:\d|Collecting|"
    r"Downloading|Requirement already satisfied|Installing collected packages|Successfully installed) "
    r"|^(?:#\d{1,4} [\d.]{1,10} )?(?:invoke-rc\.d|debconf|update-alternatives): ",
    r"^\| (?:Violation conditions|Validation failure action|Action on violation) +\|",
    # Conditions of a node that do not hold.
    r"^\s*(?!\w*(?:Ready|Initialized|Scheduled|Available)\b)[A-Z]\w{3,60} {2,}False {2,}\w",
    # What a program says for its own developers of parts that it can do without; at that level it also hands on what
    # others say, and that counts.
    r"^\W{0,3}(?:\([^)]{1,60}\) )?(?:\[?\d[\d:., TZ/+-]{5,34}\]?[\s|-]{1,4})?\[?(?-i:DEBUG|VERBOSE)\]?[\s:|-]"
    r"(?=.{0,200}\b(?:when checking|is not installed|not available because|falling back"
    r"|fall back|skipping|optional)\b)",
    r"\b(?:NoExecute|NoSchedule)(?: op=|:|$)|\{\{ ?[$.]\w",
    # The head of a table of counters.
    r"^\W{0,3}\|[^|]{0,60}\b(?:errors?|failures?) (?:counts?|counters|statistics|summary|details)\s{0,200}\|\s*$",
    # The names of a table's columns: words of errors, two spaces or more between, no verb and no figure.
    r"^(?:[\w\[\].-]{1,40}:)?\s{0,40}(?!.{0,200}\d)(?-i:[A-Z#%][\w#%/().-]{0,30}(?: [A-Z(][\w/().-]{0,30}){0,3})"
    r"(?:\s{2,40}(?-i:[A-Z#%][\w#%/().-]{0,30}(?: [A-Z(][\w/().-]{0,30}){0,3})){2,20}\s*$",
    # Answers that were graded: the model's, and no program's.
    r"^\S{1,60}/\d{1,6}: (?:FAILED|PASSED)\b|^\W{0,4}\d{1,6} more (?-i:FAILED|PASSED)\b",
    r"^\s{1,12}[RT]X(?: errors)?: {1,8}(?:[a-z]{2,12} {1,8}){2,8}[a-z]{2,12}\s*$",
    # A shell that may not raise a limit: what needs locked memory has an error of its own.
    r"\bulimit: (?!.{0,30}locked).{3,60}: cannot modify limit: Operation not permitted",
    # What TeX says of a text that it sets.
    r"\\(?:OT1|T1|TU)/\w{2,12}/",
    # What a manual defines, and what it is asked.
    r"\b(?:exit|return) (?:code|status) \d{1,3} (?:means|indicates|stands for)\b"
    r"|\bexit (?:codes?|status)\b\W{1,3}0 [\w ]{2,20}, 1 \w"
    # What a user asked a server, checks that passed, rows of a profiler's table, and variables that are explained.
    r"|^\W{0,3}\[ ?(?:PASS(?:ED)?|OK|SUCCESS) ?\] ?\S"
    r"|^\s{0,80}(?:cuda|cu|nccl)[A-Z]\w{2,40} {1,40}(?:[\d.,]{1,16}(?:us|ms|s|ns|%)?\s{1,40}){3}"
    r"|^\s*(?-i:[A-Z][A-Z0-9]{1,20}_[A-Z0-9_]{2,60})\s.{5,300}\(default:? [^)]{1,40}\)\s*$"
    # What a handbook quotes and explains in the same line, and what somebody is quoted with.
    r"|^\s{0,6}[-*|] ?`[^`]{5,240}`(?: \w{1,20}){0,9}\s+(?:\.\.\.|->|[|:\u2013\u2014-]|=>)\s*\S+ \S+ \S"
    r"|\"[^\"]{10,240}\" \((?-i:[A-Z][\w.]*(?: [A-Z][\w.-]*){1,4})\)\s*$"
    r"|^\W{0,3}Q(?:uestion)?(?: ?\d{1,3})?[:.)] .{3,300}\?",
    r"\(expected\)\s*$|\b(?:may|might|can|could) follow\b|\bunless S?Xid \d|\bno deadlock\b",
    r"^\s*(?:Return|Exit) (?:code|status) \d{1,3} +- ",
    r"^\s{3,}(?:This (?:section|field|flag|option|table|metric|counter|value)|The (?:value|number|count) of the)\b",
    r"\b(?:is|are) (?:printed|returned|set|shown|reported) when\b",
    # Advice, and what a call may return.
    r"^\W{0,8}(?:If|When|Whenever|In case) .{3,240}[,:] ?(?:then |please )?(?:lower|raise|set|check|run|see|use|try"
    r"|reset|make sure|increase|decrease|reduce|restart|verify|look|add|drain|reboot|ask|pass|upgrade|install)\b",
    r"\b(?:increase|decrease|raise|lower|set|use|try) (?:it|this) (?:if|when|where)\b",
    r"Warning: .{0,120}\b(?:may|might|could) (?:potentially )?(?:fail|crash|run out)\b"
    r"|\b(?:attempts?|tries) to (?:catch|recover from|avoid|prevent|handle) .{0,60}\b(?:errors?|memory|exceptions?)\b",
    r"^\W{0,12}(?:(?:warning|note|hint|tip): )?(?:try|use|set|consider|pass|add|disable|enable|switch) .{1,160}"
    r" (?:if|when|in case of|in case) (?:you )?(?:get|getting|see|seeing|encounter\w*|experienc\w+|hit|hitting|fac\w+"
    r"|run into|running into|there (?:is|are)|an?y?) ",
    r"\b(?:may|can|could|might|would|will) (?:also )?return `?(?-i:cuda|nccl|CUDA|EAGAIN)",
    r"\b(?:is|are) not an? (?:error|failure)\b",
    # What somebody looked for and did not find, told in words.
    r"\b(?:I|we|I've|we've|admins?)\b.{0,60}\b(?:verified|checked|confirmed|made sure|ensured|ruled out)\b.{0,60}"
    r"\b(?:there (?:is|are|was|were) no|no \w{2,20} (?:is|are) (?:on|set|enabled|active)|(?:is|are) (?:off|disabled))\b"
    r"|^[^\[{]{0,80}\bno (?:Xids?|OOMs?|ECC(?: errors?)?|AER|MCEs?|NVLink errors?|errors?|messages)"
    r"(?: (?:messages|lines|errors|events))? (?:in|from) (?:the )?(?:dmesg|journal\w*|syslog|kernel|logs?)\b",
    # Errors of bits before they are corrected: links of four levels always have some.
    r"^\s{0,12}(?:Pre|Raw)[- ]FEC (?:bit error rate|BER)\b.{0,40}\d[eE]-(?:0?[6-9]|1\d)\b",
    # What a loader of images counts of files that it leaves out.
    r"\bScanning \S{1,200} {0,3}\d{1,9} images, \d{1,9} backgrounds, \d{1,9} corrupt\b",
    # A part that a program places elsewhere, as it does for tables that are looked up.
    r"\bcannot be used with preferred buffer type \w{1,30}, using \w{1,30} instead\b",
    # Names of tasks, and events of a machine's log that ended.
    r"^(?:TASK|PLAY|RUNNING HANDLER) \[|\|\s{0,8}Deasserted\s*$",
    # Alerts that are over, checks that are told to be good, each in a line of its own.
    r"^\s{0,8}\W{0,3}\[?RESOLVED\b|\"status\": ?\"resolved\"(?!.{0,400}\"firing\")",
    r"^\s{0,8}(?:[\u2714\u2713\u2705\u2611]\ufe0f? |\[(?:x|X|v|V|\+)\] (?=.{0,200}\b(?:ok|healthy|no|passed)\b))\s?\S",
    r"\"(?:health|health_?state|health_?status|verdict)\": ?\"(?:healthy|ok|pass(?:ed)?)\""
    r"(?!.{0,400}\"(?:unhealthy|degraded|fail\w*|critical)\")",
    # What a profiler counted by the names of calls, and what a counter of nanoseconds at the power limit holds.
    r"^\s{0,8}\d{1,3}\.\d{1,2}%?\s{1,20}(?:[\d,.]{1,20}\s{1,20}){2,8}[A-Za-z_]\w{2,80}(?:\W.{0,200})?$",
    r"^(?-i:DCGM_FI_DEV_(?:POWER|RELIABILITY|BOARD_LIMIT|LOW_UTIL|SYNC_BOOST)_VIOLATION)\b",
)
_QUOTED = re.compile("|".join(f"(?:{each})" for each in _LINES), re.IGNORECASE)

_BAD = (
    r"(?:err(?:or)?s?|fail\w*|drop\w*|discard\w*|lost|timeouts?|crash\w*|kill\w*|xids?|retr\w+|uncorrect\w*|remap\w*"
    r"|replays?|recover\w*|down(?:ed)?|overruns?|violations?|denied|reject\w*|panics?|skipped|oom|nan|corrupt\w*|unhealthy"
    r"|unresponsive|impaired|hangs?|hung|stuck|faults?|degraded|evict\w*|restarts?|aborts?|flaps?)"
)
_ZERO = re.compile(
    r"^[A-Za-z_:][\w:]{1,200}(?:\{.{0,600}\})? +0(?:\.0+)?(?:e\+0+)?(?: \d{10,13})?\s*$"
    rf"|^\W{{0,12}}(?:[\w./()-]{{1,60}} ){{0,4}}?\w{{0,40}}{_BAD}\w{{0,16}}(?:[_ ]\w{{1,30}}){{0,4}}[\"']?"
    r" {0,24}[:=]+\.* ?[\"']?0(?:\.0+)?[\"']?(?:\W{0,3}| (?:us|ms|errors?|bytes?|rows?|pages?))$"
    # A counter that is the same before and after.
    rf"|^.{{0,120}}\b\w{{0,40}}{_BAD}\w{{0,30}}\W{{1,6}}(\d{{1,18}}) ?(?:->|=>) ?\1(?:\s.{{0,20}})?$"
    # Cells of a table, and what a log counts by name.
    rf"|^\W{{0,3}}(?:\|[^|]{{0,80}}){{0,3}}\|[^|]{{0,80}}{_BAD}[^|]{{0,60}}(?:\| *0 *)+\|?\s*$"
    rf"|^.{{0,200}}\b(?:{_BAD}|oom-kill|machine check)[\w -]{{0,24}}\b(?:counts?|events?|logged|total): ?0\s*$",
    re.IGNORECASE,
)
_EXIT = re.compile(r"\W{0,3}(?:exit\w*|return\w*|rc|status)\b", re.IGNORECASE)
"""How a program ended is no counter."""
_MAX_LINE = 600


_ASKED = re.compile(
    r"\bReceived request .{0,200}\bprompt: ?['\"]|\b(?:Receive|Finish): obj=\w{3,40}\(.{0,300}\btext=['\"]"
    r"|\"(?:messages|prompt)\": ?(?:\[\{\"role\"|\")"
)
"""How servers tell what a user asked: whatever words stand there, they are the user's."""


def is_quoted(line: str) -> bool:
    """Whether the line is of a text about errors: digits in it decide nothing."""
    quoted = len(line) <= _MAX_LINE and _QUOTED.search(line) is not None
    return quoted or _ASKED.search(line, 0, _MAX_LINE) is not None


_NONE_COUNTED = re.compile(
    rf"(?<![\w.])[\w./-]{{0,60}}{_BAD}[\w./-]{{0,60}}\"? ?[=:] ?\"?0(?:\.0+)?(?![\w.%-]*\d)\"?"
    rf"|(?<=[,;(|] )0 (?:[a-z]{{1,20}} ){{0,2}}{_BAD}\b"
    # What a state's file says of faults that it has a field for.
    rf"|\"\w{{0,40}}{_BAD}\w{{0,40}}\": ?(?:false|null|\[\]|\{{\}}|\"\")(?=\s*(?:[,}}\]]|$))"
    # Names and numbers in turn.
    r"|(?:\b[a-z]\w{2,40} 0(?=[\s,;]|$)[ ,;]{0,3}){3,40}",
    re.IGNORECASE,
)


_NOUGHTS = ("=0", ": 0", ":0", "= 0", " 0 ", ": false", ":false", ": null", ":null", ": []", ":[]", ": {}", ': ""')
"""One of these stands in each line from which `without_zeros` may take anything."""


def without_zeros(line: str) -> str:
    """The line without the counters in it that counted none: what they count did not happen."""
    counts = any(each in line for each in _NOUGHTS)
    return _NONE_COUNTED.sub("", line) if counts and len(line) <= _MAX_LINE else line


def is_zero(line: str) -> bool:
    """Whether the line is a counter of errors that counted none."""
    return (
        ("0" in line or "->" in line or "=>" in line)
        and len(line) <= _MAX_LINE
        and _ZERO.match(line) is not None
        and not _EXIT.match(line)
    )


_HELP = re.compile(
    r"(?:.{0,120}\braises|usage|options|flags|global flags|commands|available commands"
    r"|(?:optional|positional) arguments|environment variables):\s*$"
    r"|\s{0,4}(?-i:RETURN VALUES?|EXIT (?:STATUS|CODES?)|NAME|SYNOPSIS|DESCRIPTION|OPTIONS"
    r"|ERRORS|DIAGNOSTICS)\s*$|usage: \S",
    re.IGNORECASE,
)
_MANUAL = re.compile(
    r"#{1,5} .{0,80}\b(?:troubleshoot\w*|faq|frequently asked|known (?:issues?|limitations)|common (?:errors?|problems?"
    r"|issues|failures)|release notes|change ?log|what's new|error (?:messages|reference|codes))\b"
    r"|(?-i:Fixed|Known|Resolved|Closed) (?:Issues|Problems|Bugs)\s*$|\S{2,40} Release (?:Notes?\b|\d)",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(r"#{1,5} .{0,80}\b(?:examples?|samples?|how it looks)\b", re.IGNORECASE)
"""What a text that explains errors shows below such a heading, it shows to explain."""
_SHOWN_DOCUMENT = re.compile(
    r"[^$#\n]{0,80}[$#] (?:cat|less|more|head(?: -n? ?\d{1,6})?|bat|glow) [\w./~-]{1,240}\.(?:md|rst|adoc)\s*$"
)
"""A shell's line that prints a document: what it quotes, up to the next such line, is no event."""
_PROMPT = re.compile(r"[^$#\n]{0,80}[$#] \S")
_EXPLAINED = re.compile(
    r"\W{0,3}\|(?=[^\n]{0,200}\|)[^\n]{0,200}\b(?:meaning|description|explanation|cause|what to do|action|remedy"
    r"|remediation|resolution|recommendation|how to fix|notes?|cure)\s{0,40}\|",
    re.IGNORECASE,
)
"""The head of a table that explains errors: a column says what they mean."""
_ALERT = re.compile(r"\s*- alert: ")
_LOG = re.compile(
    r"\s*\d{1,7}: |\[|\d{4}-\d\d-\d\d|\d\d:\d\d|[A-Z][a-z]{2} +\d{1,2} \d\d:|[EWIF]\d{4} |<\d|\(\w|Traceback|\w+Error:"
    r"|\S{1,200}:\d{1,9}:\d{1,9} \[|\+ |\$ |.{0,40}NVRM: |\S{1,80}: error: "
)
"""How a log's own line begins; what the manual of a program quotes has words around it."""


_STATEMENT = re.compile(
    r"\s{0,60}(?:import \w|from [\w.]{1,80} import |(?:async )?def \w{1,60}\(|class \w{1,60}\b.{0,80}:$"
    r"|return\b|raise\b|@\w|(?:if|elif|for|while|with|except|try|else|finally)\b.{0,200}:(?:\s{0,4}#.*)?$)"
)
"""A line of Python that is no line of anything else."""
_AS_CODE = re.compile(
    r"\s{0,60}(?:[\w.\[\]\"', ]{1,80} [-+*/|]?= \S|[\w.]{1,80}\(.{0,200}[\w)\]\"',]$|#|\"\"\""
    r"|['\"].{0,200}[\"'][,)]{0,3}$|[)\]}]{1,4},?$|(?:pass|break|continue|global \w+)$)"
)
_WINDOW, _SHARE, _FEWEST = 12, 0.75, 3


class Code:
    """Whether lines are of a program's source: most of those before it are, and some can be nothing else."""

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=_WINDOW)

    def holds(self, line: str) -> bool:
        """Whether the line is amid such lines, and looks like one."""
        if not line or line.isspace():
            return False
        kind = 2 if _STATEMENT.match(line) else 1 if _AS_CODE.match(line) else 0
        before = list(self._last)
        self._last.append(kind)
        if not kind or "File " in line:
            return False
        return before.count(2) >= _FEWEST and sum(map(bool, before)) >= _SHARE * len(before)


class Section:
    """Whether lines belong to source, a program's help, a manual or table of errors, or rules of alerts."""

    def __init__(self) -> None:
        self._kind = ""
        self._code = Code()
        self._explained = False

    def holds(self, line: str) -> bool:
        """Whether the line is of such a part; the line that opens one is."""
        if self._kind == "document" and not self._closes(line):
            return True
        if self._code.holds(line) or self._opens(line):
            return True
        if self._kind and self._closes(line):
            self._kind = ""
        return self._kind != ""

    def _opens(self, line: str) -> bool:
        if len(line) > 200:
            return False
        if line.rstrip().endswith((".md", ".rst", ".adoc")) and _SHOWN_DOCUMENT.match(line):
            self._kind = "document"
            return True
        first = line.lstrip()[:1]
        if first == "#" and self._explained and _EXAMPLE.match(line):
            self._kind = "example"
        elif first == "#" or " Release " in line or line.rstrip().endswith(("ssues", "roblems", "ugs")):
            if _MANUAL.match(line):
                self._kind = "manual"
        elif first == "/" and line.lstrip().startswith("/*"):
            self._kind = "" if "*/" in line else "comment"
        elif first == "-" and _ALERT.match(line):
            self._kind = "alert"
        elif first == "|" and not self._kind and _EXPLAINED.match(line):
            self._kind, self._explained = "table", True
        elif _HELP.match(line):
            self._kind = "help"
        else:
            return False
        return self._kind != ""

    def _closes(self, line: str) -> bool:
        if self._kind == "document":
            return _PROMPT.match(line) is not None and not line.startswith("#")
        if self._kind == "comment":
            return not line.lstrip().startswith("*")
        if self._kind == "example":
            return line.startswith("#")
        if self._kind == "table":
            return not line.lstrip().startswith("|")
        if self._kind == "manual":
            bare = line.lstrip(" -*>`'\"")
            return _LOG.match(line) is not None or (line.startswith("# ") and not bare.startswith("#"))
        return not line.startswith((" ", "\t")) or _LOG.match(line) is not None
