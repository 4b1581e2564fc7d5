"""How a job's own log tells its course: that its work was done, that all of it succeeded, that it began again.

Words of an end stand in many lines that tell of a part alone ("loading: done"), or of what is yet to come. So an end
counts where the sentence is about the job, or is no more than the word behind stamps and ranks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from busbw.doctor.lines.busy import Busy
from busbw.doctor.lines.moments import moment_of

MAX_LOOK = 400
MAX_RETRIES = 1024
NEAR_RETRY = 3
"""Lines below an error in which its program says that it tries again."""
_STAMP = re.compile(
    r"\s{0,8}(?:\[[^\]\n]{0,80}\]|\([^)\n]{0,80}\)|<\w{1,12}>|[*#=+>|]{1,80}|[IW]\d{4}\b|\d{4}-\d\d-\d\d(?:[T ]|\b)"
    r"|\d\d:\d\d:\d\d[\d.,]{0,10}(?:Z\b|[+-]\d\d:?\d\d)?|(?:rank|node|worker|host|pod)[ -]?\d{1,7}\b"
    r"|(?:INFO|NOTICE|info|notice)\b|\w[\w.-]{0,40}\[\d{1,8}\]|\d{1,7}(?=:)|\w{0,20}\d(?=: )"
    r"|(?:main|train\w{0,10})(?=:))"
    r"[\s:|>,-]{0,8}"
)
"""What stands before a sentence: its time, who says it, and how grave that is."""
_MOST_STAMPS = 10
_WORD = re.compile(
    r"(?:all )?(?:done|finished|completed?|(?:finished|completed) successfully|done training|success)\b"
    r"(?=[.! -]{0,4}$|, |\. |; | in \d| after \d| \()(?!\W{1,3}(?:with |but )?\w{0,12} ?(?:fail|err|abort|exc))",
    re.IGNORECASE,
)
"""An end in one word, at the start of what is said."""
_WORK = (
    r"(?:(?:pre-?|fine-?)?train(?:ing)?(?: (?:job|run|loop))?|tuning|\w{0,12}jobs?|run|workflow|trial|bench(?:mark\w*)?"
    r"|sweep|workload|experiment|evaluation|program|script|main|(?:all )?work"
    r"|all (?:\d{1,6} )?(?:ranks|workers|processes|jobs|steps|epochs|iterations|tasks))"
)
_IN_PART = (
    r"(?!\W{0,3}(?:with \w{0,12} ?(?:err|fail|exc)|fail|err|abort|with (?:exit )?(?:code|status) [1-9-]|abnormal|un"
    r"|due|because|for \w|after an? |\d{1,3} ?%|\d{1,9} ?(?:/|of)))"
    r"(?! (?:\w{1,12} )?(?:init|rendez|set-?up|warm|load|compil|connect|handshake|barrier|start|regist|sync|sav[ei]))"
)
"""Not behind the word of an end: it ended badly, or what ended is a part."""
_DONE = re.compile(
    rf"\b{_WORK}(?: \S{{1,60}})?(?: (?:has|have|is|was|are|were))?(?: (?:now|all|been))? ?[-:]? ?"
    rf"(?P<end>(?:done|finished|completed?|passed|succeeded)\b){_IN_PART}"
    r"|\ball (?:\w{1,20} )?(?:tests|checks|validations|diagnostics) (?:are |were |have )?"
    r"(?:passed|successful|succeeded|ok)\b"
    rf"|\b(?:done|finished|completed) (?:{_WORK}|everything|all|\d{{1,9}} (?:epochs|steps|iterations))\b{_IN_PART}"
    r"|\bMPI_Finalize\b.{0,16}\b(?:done|ok|complete\w*|success\w*|returned)\b"
    r"|\b(?:exit(?:s|ing|ed)?|ended|terminated) (?:successfully|normally|cleanly|with status ok)\b"
    r"|\ball done\b(?=[.! ]{0,4}$)"
    r"|\breached (?:the )?max\w{0,5}[ _](?:number of )?(?:iters\b|steps|epochs|iterations)\b"
    r"|\bmax\w{0,5}[_ ](?:number of )?(?:steps|epochs|iterations) reached\b",
    re.IGNORECASE,
)
_NOT_YET = re.compile(
    r"\b(?:not?|never|until|when|once|if|wait\w*|will|would|should|must|can\w*|could|fail\w*|errors?|before|unless|expected"
    r"|except\w*|without|whether|partial\w*|step|warm-?up|after)\b|n't\b",
    re.IGNORECASE,
)
"""Before the word of an end: nothing ended, or a part alone."""
ENDED = re.compile(
    r"training (?:finished|completed?)\b(?! (?:with|for|due)| ?\d)|Trainer\.fit. stopped: .max_|'train_runtime': '?\d"
    r"|^iperf Done\.|\berr= 0: pid=|\[after training is done\]|^\s{0,4}Number of (?:complete|finished) trials: +[1-9]"
    r"|\"run_stop\".{0,300}\"success\"|^\W{0,3}End of Tests\.|\bjob \S{1,80} succeeded\b"
    r"|\b(?:job|run|benchmark|workload|training)(?: has| was)? (?:completed|finished) successfully\b",
    re.IGNORECASE,
)
"""What a program prints that ended as it should."""
_CHECKED = re.compile(
    r"\bRESULT\W{1,3}PASS(?:ED)?\b"
    r"|\b(?:scan|checks?|diag\w*) (?:complete|finished|done)\W{1,3}0 (?:unhealthy|failed|errors?)\b"
    r"|^=+ (?!.*\b[1-9]\d{0,6} (?:failed|errors?)\b)(?:.*, )?\d{1,7} passed\b.* in [\d.]{1,12}s\b"
    r"|^\S{1,80} +: ok=\d{1,6} +changed=\d{1,6} +unreachable=0 +failed=0\b"
    r"|\bExecuted \d{1,6} out of \d{1,6} tests?: \d{1,6} tests? pass(?:es)?\.?$|\|? ?Overall Health {1,40}\| Healthy\b"
    r"|^OK(?: \([\w =,]{1,80}\))?$|^\W{0,3}\[ {2}PASSED {2}\] \d{1,7} tests?\b|\btest result: ok\. "
    r"|\b100% tests passed\b|^ok\s{1,8}\S{1,200}\s{1,8}[\d.]{1,12}s$"
)
"""What a program of tests or checks prints where all passed: what it provoked was asked for, or came to nothing."""
_OF_RUNNER = re.compile(r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z ")
"""The time that a runner of automatic tests puts before each line."""
_UNCHECKED = re.compile(
    r"^\S{1,80} +: ok=\d{1,6} .*\b(?:unreachable|failed)=[1-9]"
    r"|^\W{0,3}\[ {2}FAILED {2}\] |\btest result: FAILED|^=+ .*\b[1-9]\d{0,6} (?:failed|errors?)\b|^FAILED \("
)
_SUCCEEDED = re.compile(
    r"WorkerState\.SUCCEEDED|worker group successfully finished|\bJobState=COMPLETED\b"
    r"|^\s{0,8}\d{1,12}(?:_\d{1,6})?\s.{0,160}\bCOMPLETED\s(?:.{0,80}\s)?0:0\b"
    r"|\b[Jj]ob(?:\.batch)?[ /]\S{1,80}(?: (?:has|is|condition))?:? (?:succeeded|COMPLETED|completed|[Cc]omplete|met)\b"
    r"(?!.{0,40}(?:ExitCode|exit code|code|status)\W{0,3}[1-9])"
    r"|\b(?:job )?(?:status|state)(?: is)? ?[:=]? ?[\"']?(?-i:SUCCEEDED|Succeeded|FINISHED)\b"
    r"|^\s{0,40}(?:phase|type): Succeeded|\bExit_status ?= ?0\b(?!\.)|^Successfully completed\.$"
    r"|\w{1,12}Job\b.{0,80} successfully completed\b"
    r"|\bSparkContext is stopping with exitCode 0\b|\bfinal (?:app )?status: SUCCEEDED\b"
    r"|\bNormal\s{1,8}Completed\s|\bStatus: {1,16}Succeeded|\bTraining completed after \d{1,9} iterations"
)
"""What those print who watch all processes of a job."""
_EXITED = re.compile(
    r"\b(?:[Ee]xit(?:ed|ing|s)?|[Rr]eturned|[Ff]inished|[Cc]ompleted)(?: (?:normally|with|and|its?|the|exit"
    r"|return|code|status)){0,4}[ :=]{1,3}0(?::0)?(?![\w.:-]*\d)\W*$"
    r"|^\W{0,3}(?:job |exit |final )?(?:rc|exit)(?: ?[=:] ?| )0\s*$"
)
_OF_ONE = re.compile(
    r"\b(?:rank|worker|process|pid|container|task|child|hook|probe|epilog|prolog|init|sidecar)\b", re.IGNORECASE
)
"""Whose end is not the job's."""
_OF_RANK = re.compile(r"\b(?:rank|default|worker|node)[ _:=-]{0,2}\d", re.IGNORECASE)
_AGAIN = re.compile(
    r"[Rr]endezvous'ing|[Ss]tarting (?:elastic|worker)|(?<![Bb]ack-off )\b[Rr]e-?start(?:ing|ed)\b(?! count)"
    r"|[Rr]esum(?:ed|ing) |\brequeued?\b|\bRestoring from\b|\brelaunch(?:ed|ing)\b"
    r"|\brestart_count ?= ?[1-9]|\bnewest (?:complete )?checkpoint\b"
    r"|\bloaded (?:model|checkpoint|state)\b.{0,60}\boptim"
    r"|^\W{0,12}[Aa]ttempt [2-9]\b(?!.{0,80}fail)|\bre-?scheduled\b"
)
"""Words of a job, or a part of it, that begins again."""
_PROMPT = re.compile(
    r"^[^\n]{0,80}[$#>] {1,3}(?:\w{1,60}=\S{1,80} ){0,6}"
    r"(?:torchrun|mpirun|mpiexec|srun|python3?|accelerate|deepspeed|bash|sh|\./\S{1,80}|jax\w{0,8}|uv run)\b",
)
"""A command that somebody starts by hand."""
_BY_HAND = re.compile(r"^.{0,200}\^C")
"""How a terminal shows that somebody interrupts what runs in it."""
_NOTICE = re.compile(
    r"\bSIG(?:TERM|USR1|USR2) (?:caught|received)"
    r"|\b(?:caught|received|got) (?:signal )?(?:SIG(?:TERM|USR1|USR2)\b|1[0-5]\b)"
    r"|\bpreemption (?:notice|step|signal|sync point)|\bwill be preempted|\bpreemption (?:is )?(?:imminent|scheduled)",
    re.IGNORECASE,
)
_SAVED = re.compile(
    r"\bsaved (?:\w{1,20} ){0,3}(?:checkpoint|state|snapshot)|\b(?:checkpoint|ckpt|snapshot)\b.{0,80}"
    r"\b(?:saved|written|committed|finali[sz]ed|uploaded)\b",
    re.IGNORECASE,
)
_NOT_SAVED = re.compile(r"\b(?:not|no|never|fail\w*|last|previous|before|could|un\w+ed)\b|n't\b", re.IGNORECASE)
_STARTED = re.compile(
    r"^\s{0,12}Normal\s{1,40}Started\s{1,40}(?!\S{1,12} \(x)\S.{1,80}\bkubelet\b.{1,60}"
    r"(?:[Ss]tarted container|[Cc]ontainer started)"
)
_YOUNG = re.compile(
    r"\s{0,12}(?:\d{1,3}[smh]){1,2}\s{1,12}Normal\s{1,12}(?:Started|Created|Pulled|Scheduled|Completed|NodeReady)\s"
    r"|\w[\w.-]{2,100} {1,40}(?:([1-9]\d?)/\1 {1,20}Running {1,20}\d|Ready {1,40}\S{1,60} {1,20}\d{1,4}[smhd])"
)
"""Rows of `kubectl get events` and `kubectl get pods`."""
_READY = re.compile(
    r"\s{0,8}(?P<name>\w[\w.-]{2,100}) {1,60}"
    r"(?:([1-9]\d?)/\2 {1,20}Running {1,20}\d|Ready {1,40}\S{1,60} {1,20}\d{1,4}[smhd])"
    r"|\s{0,12}(?:\S{2,10} {1,12})?Normal {1,40}NodeReady {1,40}node/(?P<node>[\w.-]{3,100})\s"
)
"""A row of `kubectl get pods` or `kubectl get nodes` whose pod or node is ready."""
_MOST_PODS = 512
_BACK = re.compile(
    r"\b(?:nv)?links?\b.{0,80}?\b(?:up|active|restored|recovered|trained|re-?established)\b(?! to down)"
    r"|\bIF_UP: Interface \S{1,40} is up\b|Interface \S{1,40}, changed state to up\b"
    r"|\bport (?:active|up)\b|\b(?:interface|protocol)\b.{0,80}\bchanged state to up\b"
    r"|\b(?:port|interface|node|server|connection|fabric|slave)\b.{0,80}\b"
    r"(?:(?:is|came|comes|went) (?:back|up|ready|active)|up again|active again|ready again|restored|recovered"
    r"|reconnected|definitely up|re-?established|rejoined)\b",
    re.IGNORECASE,
)
_NOT_BACK = re.compile(
    r"\b(?:not|never|down|no longer|in-?active|inactive|fail\w*|waiting|unable|cannot|lost|set up)\b|n't\b",
    re.IGNORECASE,
)
_WORKS = re.compile(
    r"^\s{0,24}(?:State: *Active|Physical state: *LinkUp|(?:port_)?state:\s{1,16}(?:PORT_|4: )ACTIVE"
    r"|phys state:\s{1,8}5: LinkUp|Link detected: yes|(?:current_)?state: FULL)\b"
    r"|^(?:Ethernet|Eth|et-|xe-|swp)\d\S{0,12} is up\b",
    re.IGNORECASE,
)
"""How listings show a port that works as they were made."""
WORDS = (
    *("done", "finish", "complet", "pass", "succe", "exit", "returned", "trainer.fit", "train_runtime", "end of tests"),
    *("job", "status", "state", "ok", "failed", "[after training", "normally", "cleanly", "max", "overall health"),
    *("number of ", "iperf", "err= ", "executed ", "changed="),
)
AGAIN_WORDS = (
    *("rendezvous'", "restart", "re-start", "starting ", "resum", "requeue", "restoring", "relaunch", "attempt"),
    *("schedule", "$ ", "# ", "> ", "restart_count", "newest ", "loaded "),
)
WISH_WORDS = (
    "^c",
    "sigterm",
    "sigusr",
    "preempt",
    "signal",
    "checkpoint",
    "ckpt",
    "snapshot",
    "saved",
    "kubelet",
    "normal ",
    " running",
)
BACK_WORDS = (
    "state: active",
    " is up",
    "if_up",
    "protocol",
    "link",
    "port",
    "interface",
    "node",
    "server",
    "connection",
    "fabric",
    "slave",
)


@dataclass(slots=True)
class Course:
    """The last lines of each kind, 0 for none.

    `ended`: the program's own words of its end, or of those who watch it; `done`: the same, or weaker words, of which
    `first` is the first one after the last sign of life, `whole` the last that no rank says of itself, and `said` the
    last in words of the work; `done_at` the time in front of the last, or of the step before it; `succeeded`:
    those of a launcher or scheduler; `checked`: all tests passed; `again`: the job or a part of it began again; `back`:
    a link, port or host came back; `works`: a listing shows a port that works; `by_hand`: somebody pressed Ctrl-C;
    `noticed`: the job was told that it has to go, `prepared`: it had saved its state then; `started`: a pod's container
    started, for the first time; `young`: an event of today tells that all goes well, `ready`: pods and nodes that are
    listed so; `served`: a server answered. `beats` counts the lines by which the job shows that it goes on, `busy` is
    what ranks do for themselves.
    """

    ended: int = 0
    done: int = 0
    first: int = 0
    whole: int = 0
    said: int = 0
    done_at: float | None = None
    succeeded: int = 0
    checked: int = 0
    again: int = 0
    back: int = 0
    works: int = 0
    busy: Busy = field(default_factory=Busy)
    by_hand: int = 0
    noticed: int = 0
    prepared: int = 0
    started: int = 0
    young: int = 0
    ready: set[str] = field(default_factory=set)
    served: int = 0
    beats: int = 0
    step: str | bytes = ""
    """The last line by which the job shows that it goes on."""
    retries: list[int] = field(default_factory=list)
    """The first lines in which a program says that it tries something again."""

    def tries_again(self, number: int) -> None:
        """Something is tried again in that line."""
        if len(self.retries) < MAX_RETRIES:
            self.retries.append(number)

    def tried_again(self, line: int) -> bool:
        """Whether a program says in that line, or right below it, that it tries again."""
        return any(0 <= at - line <= NEAR_RETRY for at in self.retries)

    def had_ended(self, alive: int, line: int) -> bool:
        """Whether before that line the work was done, and nothing of it came after; `alive`: the last sign of life."""
        return 0 < self.first < line and alive <= self.done

    def look_for_end(self, line: str, number: int, alive: int = 0) -> bool:
        """Whether the line tells an end; takes note of it. `alive`: the last sign of life."""
        line, before = _OF_RUNNER.sub("", line[:MAX_LOOK].rstrip()), self.done
        if _UNCHECKED.search(line):
            self.checked = 0
            return True
        if _CHECKED.search(line):
            self.checked = self.ended = self.done = number
        elif _SUCCEEDED.search(line) or (_EXITED.search(line) and not _OF_ONE.search(line)):
            self.succeeded = self.ended = self.done = number
        elif ENDED.search(line):
            self.ended = self.done = self.said = number
        elif is_done(line):
            self.done = self.said = number
        else:
            return False
        if not before or alive > before:
            self.first = number
        if self.done == number:
            moment = moment_of(line)
            step = self.step if isinstance(self.step, str) else self.step[:MAX_LOOK].decode("utf-8", "replace")
            self.done_at = moment_of(step) if moment is None else moment
            self.whole = self.whole if _OF_RANK.search(line) else number
        return True

    def look_for_return(self, line: str, number: int) -> bool:
        """Whether the line tells that a link, a port or a host is back; takes note of it."""
        if _WORKS.search(line[:MAX_LOOK]):
            self.works = number
            return True
        if not _BACK.search(line[:MAX_LOOK]) or _NOT_BACK.search(line[:MAX_LOOK]):
            return False
        self.back = number
        return True

    def look_for_start(self, line: str, number: int) -> bool:
        """Whether the line tells that something begins again; takes note of it."""
        line = line[:MAX_LOOK]
        # Who tries a failed command again may do so with other settings; whoever ended it on purpose starts the next.
        if not _AGAIN.search(line) and not (0 < self.by_hand < number and _PROMPT.match(line)):
            return False
        self.again = number
        return True

    def goes_on(self, line: str | bytes, number: int, *, served: bool) -> None:
        """The job shows that it goes on in that line, by an answer of a server or otherwise."""
        self.beats, self.step = self.beats + 1, line
        if served:
            self.served = number

    def look_for_wish(self, line: str, number: int) -> bool:
        """Whether the line tells that somebody wants the job to end, or that it saved its state for that."""
        line = line[:MAX_LOOK]
        if _BY_HAND.match(line):
            self.by_hand = number
        elif _NOTICE.search(line):
            self.noticed = self.noticed or number
        elif self.noticed and _SAVED.search(line) and not _NOT_SAVED.search(line):
            self.prepared = number
        elif _STARTED.match(line):
            self.started = number
        elif _YOUNG.match(line):
            self.young = number
            if (ready := _READY.match(line)) and len(self.ready) < _MOST_PODS:
                self.ready.add(ready["name"] or ready["node"])
        else:
            return False
        return True


def is_done(line: str) -> bool:
    """Whether the line's own words are that the job's work is done."""
    found = _DONE.search(line)
    if found is not None and not _NOT_YET.search(line[: found.start("end") if found["end"] else found.start()]):
        return True
    at = 0
    for _ in range(_MOST_STAMPS):
        if _WORD.match(line, at):
            return True
        stamp = _STAMP.match(line, at)
        if stamp is None:
            return False
        at = stamp.end()
    return False
