"""A rank's process crashed."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

_KINDS = {
    "segmentation fault": ("-11", "139", "11", "SIGSEGV", "SEGV", "245"),
    "abort": ("-6", "134", "6", "SIGABRT", "ABRT", "250"),
    "bus error": ("-7", "135", "7", "SIGBUS", "BUS"),
    "illegal instruction": ("-4", "132", "4", "SIGILL", "ILL"),
}


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """How it ended, in words for the number of a signal."""
    how = next((each["how"] for each in groups if "how" in each), "")
    word = next((name for name, codes in _KINDS.items() if how in codes), "")
    said = ", ".join(each for each in (word, how) if each)
    return f"a rank's process crashed{f' ({said[:80]})' if said else ''}"


SIGNATURE = Signature(
    name="process-crashed",
    stage=Stage.CRASH,
    title="a rank's process crashed ({how})",
    patterns=(
        r"\btraps: \S{1,40}\[\d+\] (?P<how>general protection|trap [a-z ]{4,30}|[a-z ]{4,30}) (?:fault )?ip:",
        r"\.service: Main process exited, code=(?:dumped|killed), status=\d{1,3}/(?P<how>SEGV|ABRT|BUS|ILL|FPE)",
        r"(?P<how>(?:free|malloc\w*|realloc|munmap_chunk|corrupted size)\W{0,4} ?"
        r"(?:invalid|corrupted|unaligned|vs\.)[\w .,()!-]{3,60})",
        r"(?:process|worker|engine)\b.{0,40} is not healthy",
        r"\b(?:status|code)(?: of|:)? (?P<how>139|134|245|250|-11|-6)\b",
        r"(?:[Ww]orker|scheduler|[Ee]ngine)\b.{0,60}(?:died unexpectedly|is dead\b)",
        r"(?:shut ?down|terminated|stopped|ended|died) (?:with|by|on|from) signal (?P<how>6|7|8|11)\b",
        r"process \d+ terminated with signal (?P<how>SIG\w+)",
        r"DataLoader worker \(pid\(s\) [\d, ]+\) exited unexpectedly",
        r"Pin memory thread exited unexpectedly",
        r"\b(?:exit|return)\w*(?: with)?(?: exit| return)?[ _-]?(?:code|status)?\W{1,4}"
        r"(?P<how>-(?:11|6|4|8)|139|134|245|250)\b",
        r"Signals\.(?P<how>SIGSEGV|SIGABRT|SIGILL)",
        r"killed by signal (?P<how>11|6)\b",
        # The worker's own end is the cause here, where else a process aborts after an error of another.
        r"DataLoader worker.{0,60}killed by signal: (?P<worker>Aborted|Illegal instruction|Floating point exception)",
        r"Raylet is terminated",
        r"(?:Process|PID) \d+ got signal: (?P<how>4|6|7|8|11)\b",
        r"(?<!Error: )(?<!Exception: )Check failed: .{0,200}|Check failure stack trace",
        r"Assertion .{3,120} failed\.",
        r"MPI process died\?|MPI process \(rank: \d{1,6}, pid: \d{1,8}\) terminated with signal (?P<how>4|6|7|8|11)\b",
        r"BAD TERMINATION OF ONE OF YOUR APPLICATION",
        r"EXIT CODE: (?P<how>139|134|11|6)\b",
        r"exit(?:ed with exit)? code:? (?P<how>139|134)\b",
        r"died or was killed while executing a task",
        r"returned -(?P<how>11|6)\b",
        r"(?:RayActorError|ActorDiedError|EngineDeadError|WorkerCrashedError|WorkerLostError)",
        r"(?:actor|worker(?: process)?|engine core(?: process)?) (?:has )?died unexpectedly",
        r"Engine core (?:proc\w* )?(?:initialization )?failed",
        r"(?P<how>Segmentation fault)",
        r"\b(?:srun|slurmstepd): error: .{1,160}?: tasks? [\d,\[\]-]{1,80}: "
        r"(?P<how>Aborted|Illegal instruction|Floating point exception)\b",
        r"(?P<how>SIG(?:SEGV|ABRT|BUS|ILL|FPE)) received\b",
        r"(?P<how>Signal 11 \(SIGSEGV\))",
        r"exitcode *: *(?P<how>-(?:11|6|7|4|8))\b",
        r"Signal: (?P<how>Segmentation fault|Aborted)",
        r"Fatal Python error: (?P<how>[\w ]{1,40})",
        r"terminate called (?P<how>after throwing|recursively|without)",
        r"exited on signal (?P<how>\d+)",
        r"(?P<how>core dumped)",
        r"Signal (?P<how>6 \(SIGABRT\)|7 \(SIGBUS\)|4 \(SIGILL\)|8 \(SIGFPE\))",
        r"(?P<how>double free or corruption|stack smashing detected)",
        r"segfault at",
        r"Worker exit type: SYSTEM_ERROR",
        r"Worker unexpectedly exits",
        r"worker process has died",
    ),
    unless=(
        "multicast join failed",
        "bus error",
        "deepep",
        "config check failed",
    ),
    confirm="the core file or `python -X faulthandler`; the log of the rank that ended first",
    cure=("find the stack of the first rank that crashed; the errors of the other ranks follow from it"),
    source="torch/distributed/elastic; Open MPI",
    tell=tell,
)
