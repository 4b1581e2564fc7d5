"""Slurm's own services do not work together."""

import re
from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

_PAIR = re.compile(r"=(?P<told>\d{1,9}):(?P<has>\d{1,9})\(hw\)")


def _has_more(groups: Sequence[Mapping[str, str]], lines: int) -> bool:
    """Whether nothing is said but that a node has more than slurm.conf names, as where its threads are left out."""
    more = 0
    for each in groups:
        pairs = [(int(pair["told"]), int(pair["has"])) for pair in _PAIR.finditer(each.get("differs", ""))]
        more += bool(pairs) and all(told <= has for told, has in pairs)
    return more == lines


SIGNATURE = Signature(
    name="slurm-setup",
    stage=Stage.LAUNCH,
    title="Slurm's own services fail: authentication (munge), credentials, clocks, its prolog, or its controller",
    patterns=(
        r"Node configuration differs from hardware(?P<differs>:? .{5,300})?",
        r"gres/\w{2,20}: count (?:reported )?(?:lower|too low|higher)",
        r"Munge (?:encode|decode) failed",
        r"Job (?:prolog|epilog) failed|Slurmd could not |Kill task failed|Spank plugin failure"
        r"|Zero Bytes were transmitted|Authentication credential expired|Invalid authentication credential"
        r"|Incompatible versions of client and server code|Container runtime not configured",
        r"pbs_mom.{0,60}unable to change to home directory \S{1,120}",
        r"User not found on host|Failed to look up username for uid=\d{1,9}",
        r"\b(?:uid|user|gid) \S{1,40} (?:not found|unknown|does not exist) on\b|No (?:entry|user) for uid \d",
        r"(?:Rewound|Replayed|Expired) credential",
        r"Job credential (?:expired|revoked|replayed)|Invalid job credential",
        r"(?:Protocol authentication|Invalid job credential|authentication) error",
        r"Unable to contact slurm controller",
        r"slurm_\w{3,40} error: .{5,80}",
        r"(?:sbatch|srun|salloc): error: .{0,40}Unable to contact",
        r"SPANK plugin \S{1,60} option \S{1,60} not found",
        r"plugin_load_from_file|cannot find \w{2,20} plugin for",
    ),
    light=_has_more,
    unless=("mpi/", "plugin name for mpi", "mpi_pm"),
    confirm="munge -n | ssh NODE unmunge; timedatectl on both; scontrol ping; slurmd -C",
    cure=(
        "run munged with one key on all nodes, synchronise their clocks (chrony), start slurmctld, mend the "
        "partition. Install a plugin of srun (pyxis) on all nodes and restart their slurmd"
    ),
    source="Slurm's and munge's own words",
    explains=("slurm-resources", "job-cancelled", "node-lost"),
)
