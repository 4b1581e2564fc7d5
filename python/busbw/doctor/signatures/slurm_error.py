"""Slurm reports an error that no other signature knows."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="slurm-error",
    stage=Stage.FAILURE,
    title="Slurm reports: {what}",
    patterns=(
        r"\b(?:srun|sbatch|salloc|slurmstepd|slurmd|sacct|squeue|scontrol): (?:error|fatal): (?P<what>.{5,140})",
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
    ),
    confirm="scontrol show job JOB; sacct -j JOB -o State,ExitCode,Reason; slurmd's log on the node that is named",
    cure=(
        "follow the sentence: where it names a node, leave that node out (--exclude) and look at its slurmd; "
        "where it names an option, correct the option"
    ),
    source="Slurm's own words",
    last=True,
)
