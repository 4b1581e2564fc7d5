"""Words by which a job shows in its log that it starts, goes on, ends or begins again."""

from __future__ import annotations

import re

ALIVE = re.compile(
    # Megatron sets its number to the right of eight columns. A step that Slurm cancels is one of Slurm's.
    r"\b(?:iteration|iter|it|step|epoch|global_step|batch)\b(?:\W{0,4}| {0,10})\d(?!.{0,120}\bCANCELLED AT\b).{0,200}"
    r"(?:(?:\b|_)(?:loss|time|timing|throughput|tflops|samples)\b|\d(?:it/s|s/it)\b"
    r"|(?:\b|_)(?:val|train|acc|accuracy|ppl|reward|mfu)\W{1,3}\d"
    r"|\d[km]? ?(?:s/epoch|s/step|tok/s|tokens/s|img/s|images/s|examples/s|steps/s)\b)"
    # Keras; launchers write the rank in front.
    r"|(?:^|<stdout>:|<stderr>:|\))\s{0,8}\d{1,7}/\d{1,7} .{0,80}\bloss: \d"
    r"|%\|.{1,60}\| {0,3}\d{1,9}/\d{1,9} \[.{1,60}\d(?:it/s|s/it).{0,120}loss\b"
    r"|\bloss\W{1,3}\d[\d.e+-]{0,16}\b.{0,40}\d%\|.{1,60}\| {0,3}\d{1,9}/\d{1,9} \[.{1,60}\d(?:it/s|s/it)"
    r"|\bepoch (?:\d{1,6} )?(?:is )?complete(?:d)?\b(?!.{0,40}(?:not|never))"
    r"|\bTrial \d{1,6} finished with value: -?\d"
    r"|\bloss'?: ?'?[\d.]+.{0,120}'epoch': '?[\d.]+|(?:^|[\s:>|\]])# Avg bus bandwidth"
    # `kubectl describe` tells of one pod, in order: once it has a node, nothing is in short supply.
    r"|^\s+Normal\s+Scheduled\s.{1,80}scheduler {2,}Successfully assigned"
    r"|\bNormal\s+(?:Admitted|QuotaReserved)\s.{0,20}\bkueue-"
    r"|\b(?:generation|gen|prompt) throughput\b.{0,20}[1-9]|\"POST \S{1,80} HTTP/1\.1\" 200"
    r"|\brequest: POST \S{1,80} \S{3,45} 200\b|\bApplication startup complete"
    r"|\bloss = \d[\d.e+-]{0,20}, step = \d|\bglobal_step/sec: \d"
    r"|\bSuccess\b.{0,300}\btotal_time=|\[GIN\].{1,60}\| 200 \|",
    re.IGNORECASE,
)
"""What a job prints that goes on."""
THROWN = re.compile(r"[a-z](?:Error|Exception): ")
"""What ended at a step names the step too, and is no sign of life."""
ALIVE_WORDS = (
    "loss",
    "tim",
    "throughput",
    "tflops",
    "samples",
    "avg bus",
    " 200",
    "successfully assigned",
    "startup complete",
    "it/s",
    "s/it",
    "kueue-",
    *("val", "train", "acc", "ppl", "reward", "mfu", "s/epoch", "s/step", "tok/s", "tokens/s", "img/s", "images/s"),
    *("examples/s", "steps/s", "total_time=", "[gin]", "finished with value", "epoch", "global_step/sec"),
)
START = re.compile(
    r"NCCL version \d(?!.{0,30} compiled with)|\busing nccl==|Init torch distributed begin|Bootstrap *: *Using"
    r"|initializing torch distributed"
    r"|CustomAllreduce is disabled because this process group spans|Initializing (?:distributed|ddp): GLOBAL_RANK"
    r"|[Ww]aiting in store based barrier|Added key: store_based_barrier|NCCL INFO Using network|Backend: nccl"
    r"|distributed_init_method=|is assigned as DP rank|process group (?:init|started)"
    r"|(?<!device_id in )init_process_group"
    r"|distributed init \(rank|Initializing TorchBackend|compiling and loading fused kernels"
    r"|All distributed processes registered",
    re.IGNORECASE,
)
"""What a job prints while its ranks look for each other, after which it waits."""
ON = re.compile(
    r"\b(?:took|complet\w+|finished|done|ready|loaded|loading|success\w*|passed|pass|running on|saved"
    r"|results?|it/s|s/it|100%|fired up|training|epoch|step)\b",
    re.IGNORECASE,
)
"""What tells that they found each other."""
RESULT = re.compile(
    r"^(?!.{0,40}(?:version|error|fail|warn))\W{0,3}(?:\w{1,20}\W{1,3}){0,4}-?\d{1,12}\.\d{1,12}(?:e[+-]?\d{1,3})?\W{0,6}$",
    re.IGNORECASE,
)
"""A short line that ends in a number with a point: what a program computed after its ranks met."""
RETURNED = re.compile(r"NCCL INFO (?:\S{1,80}/)?(?:init|group|enqueue)\.cc:\d{1,6} -> [1-9]\b")
"""Where NCCL tells on which way an error comes back to its caller: from here on the program has it."""
CLOSED = re.compile(
    r"ChildFailedError|Sending process \d+ closing signal|exit(?:s|ed) with return code = -?[1-9]"
    r"|slurmstepd: error: \*\*\* |srun: error: \S{1,80} tasks? \S{1,60} (?:Exited|Out Of|Killed|Term|Seg|Abort|Bus)"
    r"|noticed that process rank \d+|MPI_ABORT was invoked|Primary job +terminated|terminate called (?:after|without)"
    r"|ray\.exceptions\.(?:Actor|Worker|OutOfMemory|NodeDied)|EngineDeadError|SIGKILL\) received by PID"
)
"""What is said of a job whose processes end."""
FATAL = re.compile(r"(?:^|\W)F\d{4} \d\d:\d\d:\d\d\.\d")
"""The stamp of a message after which a process ends itself."""
RESOLVED = re.compile(
    r"\b(?:succe\w+|connected|established|registered|uploaded|downloaded|saved|mounted|joined|recovered|restored|resumed"
    r"|ready|ok|done|completed?|finished)\b",
    re.IGNORECASE,
)
"""What tells that something tried again was done at last."""
UNRESOLVED = re.compile(
    r"\b(?:not?|never|fail\w*|error|refused|unable|cannot|gave up|giving up|retry\w*|again|exceeded)\b|n't\b"
    r"|timed? ?out",
    re.IGNORECASE,
)
"""What says that it was not."""
DEALT_WORDS = (
    *("fall", "ignor", "suppress", "swallow", "skip", "continu", "tolerat", "handled", "harmless", "fatal", "expected"),
    *("decreas", "halv", "smaller", "with half", "lower", "fewer", "reduc", "with less", "shr", "cut"),
    *("starting ", "starts ", "from scratch"),
    *("instead", "disabl", "without it", "optional", "best effort", "as fail", "as a fail"),
    *(" went on", " came through", " came up", " came back", " recovered", " connected", " succeeded"),
)
"""Words by which a program says that it has dealt with an error."""
