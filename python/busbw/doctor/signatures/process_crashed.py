"""A rank's process crashed."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="process-crashed",
    stage=Stage.CRASH,
    title="a rank's process crashed ({how})",
    patterns=(
        r"\b(?:exit|return)\w*(?: with)?(?: exit| return)?[ _-]?(?:code|status)?\W{1,4}"
        r"(?P<how>-(?:11|6|4|8)|139|134)\b",
        r"Signals\.(?P<how>SIGSEGV|SIGABRT|SIGILL)",
        r"killed by signal (?P<how>11|6)\b",
        r"Raylet is terminated",
        r"Check failed: .{0,200}|Check failure stack trace",
        r"Assertion .{3,120} failed\.",
        r"BAD TERMINATION OF ONE OF YOUR APPLICATION",
        r"EXIT CODE: (?P<how>139|134|11|6)\b",
        r"exit(?:ed with exit)? code:? (?P<how>139|134)\b",
        r"died or was killed while executing a task",
        r"returned -(?P<how>11|6)\b",
        r"(?:RayActorError|ActorDiedError|EngineDeadError|WorkerCrashedError|WorkerLostError)",
        r"(?:actor|worker(?: process)?|engine core(?: process)?) (?:has )?died unexpectedly",
        r"Engine core (?:proc\w* )?(?:initialization )?failed",
        r"(?P<how>Segmentation fault)",
        r"(?P<how>Signal 11 \(SIGSEGV\))",
        r"exitcode *: *(?P<how>-(?:11|6|7|4|8))\b",
        r"Signal: (?P<how>Segmentation fault|Aborted)",
        r"Fatal Python error: (?P<how>[\w ]{1,40})",
        r"terminate called (?P<how>after throwing|recursively|without)",
        r"exited on signal (?P<how>\d+)",
        r"(?P<how>core dumped)",
        r"Signal (?P<how>6 \(SIGABRT\)|7 \(SIGBUS\))",
        r"double free or corruption",
        r"segfault at",
        r"Worker exit type: SYSTEM_ERROR",
        r"Worker unexpectedly exits",
        r"worker process has died",
    ),
    unless=(
        "bus error",
        "deepep",
    ),
    confirm="the core file or `python -X faulthandler`; the log of the rank that ended first",
    cure=("find the stack of the first rank that crashed; the errors of the other ranks follow from it"),
    source="torch/distributed/elastic; Open MPI",
)
