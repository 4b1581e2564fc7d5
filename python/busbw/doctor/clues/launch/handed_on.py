"""Clues of a choice of GPUs that stands in a job's script or profile, and that its launcher hands on to all ranks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.launch.given_gpus import ranks_of_host
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_LIST = r"['\"]?(?P<{0}>\d{{1,2}}(?:,\d{{1,2}}){{0,15}}|GPU-[0-9a-f-]{{8,40}})['\"]?(?![\w,.-])"
_SET = re.compile(
    # A trace of a shell, a script that was shown, `declare -x`, `env`, `set`; of a rank, or of the job.
    r"^(?:\[\d{1,5},\d{1,6}\](?:<\w{3,8}>)?:\s?|\s{0,4}\d{1,5}: )?"
    r"(?:[^\s$#]{0,60}[$#] ?|\+{1,6} |\s{0,8}(?:\d{1,4}[:\s]\s?)?)"
    r"(?P<how>(?:declare -x|export|typeset -x|set -gx|setenv|env) )?CUDA_VISIBLE_DEVICES[= ]"
    + _LIST.format("gpus")
    # Options of launchers.
    + r"|(?P<option>\s-x |--?genv |--?env |--export(?:=|-env )\S{0,200}?)CUDA_VISIBLE_DEVICES[= ]"
    + _LIST.format("gpus_"),
    re.MULTILINE,
)
_EACH = re.compile(
    r"CUDA_VISIBLE_DEVICES['\"\]\s]{0,4}[=:] ?['\"]?(?:\$|str\(|os\.environ|`|%)|--gpus-per-task|--gpu-bind=(?!none)"
)
"""Each rank gets a value of its own, or Slurm gives it one."""
_BY_SLURM = re.compile(r"gres[=:/]gpu|\bSLURM_(?:GPUS|JOB_GPUS|STEP_GPUS|GPUS_ON_NODE)\b|--gpus(?:-per-node)?[= ]\d")
"""Slurm sets the variable itself, to the GPUs that were asked for: an `env` that shows it tells of no script."""
_BY_HAND = re.compile(r"\b(?:export|setenv|set -gx) |CUDA_VISIBLE_DEVICES=\S{1,60} +(?:\w+=\S+ +){0,6}[a-z]")
_RUN = re.compile(
    r"\b(?P<who>mpirun|mpiexec(?:\.hydra)?|prterun|horovodrun|srun|torchrun|accelerate launch|deepspeed)\s[^\n]{2,600}"
)
_PASSES = re.compile(r"\s(?P<how>-x CUDA_VISIBLE_DEVICES\b|-genvall\b|-envall\b|--export[= ]\S{0,40})")
_SOURCED = re.compile(r"^\+{1,6} (?:source|\.) (?P<file>\S{1,120})\s*$", re.MULTILINE)
_NEAR = 1500
_ORDINAL = re.compile(
    r"invalid device ordinal|device < num_gpus|out of range of visible|Invalid device id", re.IGNORECASE
)
_PROGRAMS = (
    (
        re.compile(r"tensorflow|\btf\.|keras"),
        re.compile(r"\bhvd\.|[Hh]orovod"),
        "let Horovod's program choose: tf.config.set_visible_devices(gpus[hvd.local_rank()], 'GPU')",
    ),
    (
        re.compile(r""),
        re.compile(r"\bhvd\.|[Hh]orovod"),
        "let Horovod's program choose: torch.cuda.set_device(hvd.local_rank())",
    ),
    (
        re.compile(r""),
        re.compile(r"\bjax\b|jaxlib|\bxla/"),
        "let JAX choose: jax.distributed.initialize(local_device_ids=[local rank])",
    ),
    (
        re.compile(r""),
        re.compile(r"\btorch\b|\btorchrun\b|ProcessGroupNCCL"),
        "let each rank choose: torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
    ),
)


def handed_on(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """CUDA_VISIBLE_DEVICES has one value for all ranks, with fewer GPUs than ranks, and was set before their start."""
    if finding.name != "duplicate-gpu" and not any(_ORDINAL.search(seen.fact) for seen in finding.evidence):
        return None
    sets = [(text, found) for text in texts for found in _SET.finditer(text.text)]
    values = {found["gpus"] or found["gpus_"] for _, found in sets}
    run = next(((text, found) for text in texts if (found := _RUN.search(text.text))), None)
    if len(values) != 1 or run is None or any(_EACH.search(text.text) for text in texts):
        return None
    (value,) = values
    text, found = next((each for each in sets if each[1]["how"] or each[1]["option"]), sets[0])
    by_hand = found["option"] or _BY_HAND.search(text.text, found.start(), found.end() + 60)
    of_slurm = not by_hand and any(_BY_SLURM.search(each.text) for each in texts)
    count, ranks = value.count(",") + 1, ranks_of_host(texts)
    if of_slurm or (count > 1 and (ranks is None or ranks[2] <= count)):
        return None
    at = found.start("option" if found["option"] else "gpus")
    file, seen = _file(text, found.start())
    passes = _PASSES.search(run[1][0])
    who = f"{run[1]['who']} ({named(passes['how'], 40)})" if passes else run[1]["who"]
    where = file or ("an option of the launcher" if found["option"] else "the job's script or environment")
    gpus = f"GPU {value} alone" if count == 1 else f"the {count} GPUs {value} alone"
    return Sharper(
        f"all ranks of a host see {gpus}: CUDA_VISIBLE_DEVICES={value} is set for all of them ({where}), and {who} "
        "hands it on",
        f"take CUDA_VISIBLE_DEVICES out of {file or 'that script or profile'} and out of what "
        f"{run[1]['who']} hands on, so that each rank sees all GPUs of its host. Then {_choice(texts)}. Or set it per "
        "rank, in a script that each rank starts by: export CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_LOCAL_RANK (srun: "
        "$SLURM_LOCALID)",
        (text.evidence(at), *seen, run[0].evidence(run[1].start())),
    )


def _choice(texts: Sequence[Text]) -> str:
    """How the program takes a GPU by its place on the host."""
    whole = [text.text for text in texts]
    return next(
        (cure for of, words, cure in _PROGRAMS if any(of.search(each) and words.search(each) for each in whole)),
        "let each rank choose its GPU by its local rank",
    )


def _file(text: Text, at: int) -> tuple[str, tuple[Evidence, ...]]:
    """The file that a shell's trace was reading when it set the variable."""
    if not text.text.startswith("++", at):
        return "", ()
    found = list(_SOURCED.finditer(text.text, max(0, at - _NEAR), at))
    return (named(found[-1]["file"]), (text.evidence(found[-1].start()),)) if found else ("", ())
