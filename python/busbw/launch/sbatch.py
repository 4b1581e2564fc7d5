"""Plans ranks as a batch job of Slurm: the script, and the sbatch that submits it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from busbw.launch.job import JobSpec
from busbw.launch.launchers import PROGRAMS
from busbw.launch.plan import FilePlan, LaunchPlan, Submission
from busbw.launch.srun import placement_words, processor_words, step_words

SCRIPT = "job.sbatch"
OUTPUT, ERROR = "job.out", "job.err"
EARLIER = ".before-restart-"
"""Behind the name of a record: what was measured before Slurm started the job again, and the number of that start."""


def plan(job: JobSpec) -> LaunchPlan:
    """The script says where, how long and what; only names of files travel as arguments, for they may hold anything."""
    output, error = job.folder / OUTPUT, job.folder / ERROR
    submit = (
        job.launcher_program or PROGRAMS["sbatch"],
        "--parsable",
        f"--output={escaped(str(output))}",
        f"--error={escaped(str(error))}",
        *(word for word in job.launcher_arguments if not is_of_step(word)),
        str(job.folder / SCRIPT),
    )
    return LaunchPlan(
        files=(FilePlan(job.folder / SCRIPT, script(job)),),
        submission=Submission("slurm", submit, output, error, job.name, awaited=record_of(job), secrets=job.secrets),
    )


def is_of_step(word: str) -> bool:
    """Whether a word for Slurm is one of pyxis, whose containers are those of steps."""
    return word.startswith(("--container-", "--no-container-"))


def script(job: JobSpec) -> str:
    """A batch script: directives, variables, one srun."""
    words = [f"--nodes={job.nodes}", f"--ntasks-per-node={job.ranks_per_node}"]
    if job.gpus_per_node:
        words.append(f"--gpus-per-node={job.gpus_per_node}")
    words += processor_words(job)
    # Without being told, no second start: it would measure something else, and find the record of the first.
    words += ["--requeue", "--open-mode=append"] if job.slurm.requeue else ["--no-requeue"]
    directives = [f"#SBATCH {word}" for word in (*placement_words(job), *words)]
    exports = [f"export {name}={shlex.quote(value)}" for name, value in sorted(job.open_environment.items())]
    # Secrets come with the environment of sbatch, which Slurm hands on unless it is told not to.
    exports += [
        f': "${{{name}?busbw: sbatch did not hand {name} on; it does with --export=ALL}}"'
        for name in sorted(job.secrets)
    ]
    lines = [
        "#!/bin/sh",
        *directives,
        "",
        "# The ranks prove to each other that they belong together; the secret is of this job and never in a file.",
        "BUSBW_SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')",
        "export BUSBW_SECRET",
        *exports,
        *restart(job),
        "",
        "exec srun \\",
        *(f"  {shlex.quote(word)} \\" for word in (*step_words(job), *filter(is_of_step, job.launcher_arguments))),
        f"  {shlex.join(job.argv)}",
    ]
    return "\n".join(lines) + "\n"


def restart(job: JobSpec) -> Iterator[str]:
    """Lines for a job that Slurm starts again: what was measured before stays, as a run of its own beside this one."""
    record = record_of(job)
    if not job.slurm.requeue or record is None:
        return
    name = shlex.quote(str(record))
    yield ""
    yield "# Slurm has started this job before: what was measured then is kept, and this start is a run of its own."
    yield 'if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then'
    yield f'  [ ! -s {name} ] || mv {name} {name}"{EARLIER}$SLURM_RESTART_COUNT"'
    yield '  export BUSBW_RUN_ID="${BUSBW_RUN_ID:-busbw}-restart-$SLURM_RESTART_COUNT"'
    yield "fi"


def record_of(job: JobSpec) -> Path | None:
    """The record that the ranks are told to write."""
    words = job.arguments
    named = [word.removeprefix("--record=") for word in words if word.startswith("--record=")]
    return Path(words[words.index("--record") + 1]) if "--record" in words[:-1] else Path(named[0]) if named else None


def escaped(path: str) -> str:
    """A file's name with nothing left that Slurm replaces: it takes %j and the like, and backslashes, for its own."""
    return path.replace("\\", "\\\\").replace("%", "%%")
