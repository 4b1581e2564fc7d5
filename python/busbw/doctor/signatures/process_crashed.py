"""A rank's process crashed."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="process-crashed",
    stage=Stage.CRASH,
    title="a rank's process crashed ({how})",
    patterns=(
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
    ),
    unless=("bus error",),
    confirm="the core file or `python -X faulthandler`; the log of the rank that ended first",
    cure=("find the stack of the first rank that crashed; the errors of the other ranks follow from it"),
    source="torch/distributed/elastic; Open MPI",
)
