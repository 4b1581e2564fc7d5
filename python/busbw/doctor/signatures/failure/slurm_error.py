"""Slurm reports an error that no other signature knows."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="slurm-error",
    stage=Stage.FAILURE,
    title="Slurm reports: {what}",
    patterns=(
        # A node's state, as scontrol and sinfo tell it.
        r"\bReason=(?P<what>(?!\(null\)|[Nn]one\b)[^\[\]]{4,140}?) \[\w[\w.-]{0,40}@\d{4}-",
        r"^\W{0,3}(?P<what>(?!.{0,40}\b(?:planned|maint\w*|swap|reserved|scheduled|upgrade|reimag\w*|test\w*|burn-?in)\b)"
        r"\w.{3,40}?) +(?:slurm|root) +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d +[\w.,\[\]-]{1,200}$",
        r"\b(?:srun|sbatch|salloc|slurmstepd|slurmd|sacct|squeue|scontrol): (?:error|fatal): (?P<what>.{5,140})",
        # The journal has the daemon's number in its name; a daemon ends after such a line.
        r"\bslurm(?:d|ctld|dbd)\[\d{1,8}\]: fatal: (?P<what>.{5,140})",
        r"\bslurm_\w+:? (?:error|fatal): (?P<what>.{5,120})",
    ),
    unless=(
        "exited with",
        "step aborted",
        "cancelled",
        "terminated",
        "killed",
        "temporarily disabled",
        "retrying",
        "will retry",
        "unable to contact slurm controller (connect failure), retrying",
        # Slurm goes on: it reads the hardware anew, or takes /tmp.
        "load will be required after read failures",
        "tmpdir [",
        "setting tmpdir to",
    ),
    confirm="scontrol show job JOB; sacct -j JOB -o State,ExitCode,Reason; slurmd's log on the node that is named",
    cure=(
        "follow the sentence: where it names a node, leave that node out (--exclude) and look at its slurmd; "
        "where it names an option, correct the option"
    ),
    source="Slurm's own words",
    last=True,
)
