"""A clue of a process that crashed as it ended, after all of its work was done: what it wrote is whole."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_CRASH = re.compile(
    r"pure virtual method called|terminate called|Segmentation fault|Fatal Python error|double free or corruption"
    r"|corrupted size|munmap_chunk|\(core dumped\)|exitcode ?: ?-\d|\(exitcode: -\d|[Ss]ignal (?:6|11)\b"
    r"|\bSIG(?:ABRT|SEGV)\b|free\(\): invalid"
)
_DONE = re.compile(
    r"\[after training is done\]|\b[Tt]raining (?:is |has )?(?:completed?|finished|done|ended|over)\b"
    r"(?! (?:epoch|step|batch|iter))|\b(?:[Ff]inished|[Cc]ompleted|[Dd]one with) (?:the )?(?:training|run)\b"
    r"|['\"]train_runtime['\"]: ?\d|\btrain_runtime +=|`Trainer\.fit` stopped:|\b[Aa]ll (?:epochs|steps|tests) done\b"
    r"|\bsuccessfully saved checkpoint\b|\b[Ss]av(?:ed|ing) (?:the )?final (?:model|checkpoint|weights)\b"
    r"|# Avg bus bandwidth|\bon test set \|"
)
"""What a program says when the last of its work is done; a checkpoint alone may be one of many."""
_EXITS = re.compile(
    r"destroy_process_group\(\) was not called before (?:program )?exit|Leaked callback handle"
    r"|\bdestroy_process_group\b"
    r"|process group has NOT been destroyed before it is being destructed|\bleaked (?:semaphore|shared_memory)\b"
    r"|resource_tracker\.py"
)
"""What is said by libraries as the interpreter ends."""
_FAILED = re.compile(
    r"Traceback \(most recent|NCCL WARN|Watchdog caught|\b(?:out of memory|OutOfMemoryError|oom-kill)\b|NVRM: Xid"
    r"|\b\w{3,40}Error: |^\s{0,8}(?:\[rank\d{1,6}\]: ?)?ERROR\b",
    re.MULTILINE,
)
_STEP = re.compile(
    r"\b(?:iteration|step|iter) {0,8}\d{1,9} ?/ {0,8}\d{1,9}[^\n]{0,200}\bloss\b|'loss': ?'?[\d-]", re.IGNORECASE
)
_PROFILES = re.compile(r"Leaked callback handle|\bobserver\.cpp|--(?:use-pytorch-)?profile\b|\btorch\.profiler\b")
_UNGROUPED = re.compile(r"destroy_process_group\(\) was not called|has NOT been destroyed before")


def crashed_at_exit(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The work was done, nothing failed, and the crash came behind that, as objects were taken down."""
    for text in texts:
        crash = _CRASH.search(text.text)
        if crash is None:
            continue
        before = text.text[: crash.start()]
        done = list(_DONE.finditer(before))
        exits = list(_EXITS.finditer(before))
        # Without a library's word of the end a checkpoint may be any.
        sure = done and (exits or any("saved checkpoint" not in each[0] for each in done))
        if not sure or _FAILED.search(before) or _STEP.search(before, done[-1].end()):
            continue
        said = named(crash[0], 40)
        last = text.evidence(done[-1].start())
        profiler = _PROFILES.search(text.text)
        group = _UNGROUPED.search(before)
        return Sharper(
            f"a process crashed as it ended ({said}), after its work was done ({named(last.fact, 90)}): what it wrote "
            f"is whole{', and no collective failed' if group else ''}",
            f"the results can be used. So that it ends cleanly:{_how(group=bool(group), profiler=bool(profiler))} A "
            "newer release of PyTorch or of the framework may end in better order. Where it counts: python -X "
            "faulthandler shows whose part it was",
            (
                last,
                text.evidence(crash.start()),
                *((text.evidence(exits[-1].start()),) if exits else ()),
            ),
        )
    return None


def _how(*, group: bool, profiler: bool) -> str:
    """What to call at the end, by what was left open."""
    first = " call torch.distributed.destroy_process_group() at the end on all ranks"
    stops = " stop the profiler before (prof.stop(), or leave its with block), or run without it (--profile) as a test"
    if profiler:
        return f"{first if group else ''}{', and' if group else ''}{stops}."
    return f"{first}, and stop threads, loaders and loggers of your own (wandb.finish()) before the program returns."
