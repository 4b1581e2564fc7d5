"""What every measuring verb shares about starting ranks: the job, and its plan shown or carried out."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import UserError
from busbw.base.words import Args
from busbw.cli.kept_record import report
from busbw.launch.carry_out import carry_out
from busbw.launch.hosts import check_names
from busbw.launch.job import JobSpec, Mpi
from busbw.launch.launchers import in_pods, planner
from busbw.launch.plan import LaunchPlan
from busbw.launch.request import Program, build_job, find_program
from busbw.launch.sbatch import EARLIER, record_of
from busbw.runs.destination import Destination, RecordChoice, new_run_id, runs_directory

if TYPE_CHECKING:
    from busbw.records import Record

RUN_ID = "BUSBW_RUN_ID"


def launch(
    args: Args,
    program: Program,
    choice: RecordChoice,
    extra: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> int:
    """Plan the launch of a program that takes --record, then show the plan or carry it out.

    `extra` are variables that the program needs, `folder` is the one in which it finds the run's folder.
    """
    destination = Destination(runs_directory(choice.runs), new_run_id())
    arguments, environment = program.arguments, dict(extra or {})
    pods = in_pods(args.launcher)
    if folder:
        environment[folder] = str(destination.folder)
    if choice.keep and not choice.named:
        # A pod has no folder in common with us: its record comes with its log, which is read as it grows.
        arguments += ("--record", "/dev/stdout" if pods else str(destination.record))
        environment[RUN_ID] = destination.run_id
    elif choice.keep and pods:
        arguments += ("--record", "/dev/stdout")  # its words name no other: no pod can write a file of ours
    if pods:
        args.job_name = args.job_name or kubernetes_name(destination.run_id)
        program = replace(program, path=Path(args.image_engine or "busbw-engine"))
    whole = replace(program, arguments=arguments)
    job = build_job(args, whole, environment, destination.folder)
    plan = plan_of(args.launcher, job)
    if choice.named and pods and plan.submission:
        plan = replace(plan, submission=replace(plan.submission, record=Path(choice.named)))
    if args.dry_run:
        print(*plan.lines(), sep="\n")
        return 0
    if args.launcher != "local":
        find_program(plan.submission.submit[0] if plan.submission else plan.processes[0].argv[0], args.launcher)
    check_names(meeting_places(args.launcher, job))
    destination.create()
    code = 1
    try:
        code = carry_out(plan, timeout=_timeout(args.launcher, job))
    finally:
        record = record_of(job) if job.slurm.requeue else None
        if record and not record.exists():
            join_starts(record)  # the second start came to nothing: the first is the record
        destination.discard(plan.written())
        report(destination)
        if record:
            join_starts(record)
    rank_0_is_elsewhere = args.launcher == "torchrun" and job.nodes > 1
    if code == 0 and RUN_ID in environment and not destination.record.exists() and not rank_0_is_elsewhere:
        where = "folder that every node sees" if job.nodes > 1 or plan.submission else "folder that rank 0 can write"
        raise UserError(f"the ranks ended well, but no record came to {destination.folder}; name a {where} with --runs")
    return code


def join_starts(record: Path) -> None:
    """Put what a job measured before Slurm started it again into its record, as runs of their own, the oldest first."""
    parts = sorted(record.parent.glob(glob.escape(record.name + EARLIER) + "*"), key=_start)
    if not parts:
        return
    from busbw.records import read_records, save_records

    try:
        records = [_ended(each) for part in parts for each in read_records(part)]
        records += read_records(record) if record.exists() else []
        save_records(records, record)
    except (UserError, OSError) as problem:
        print(f"busbw: what was measured before the second start stays in {parts[0]}: {problem}", file=sys.stderr)
        return
    for part in parts:
        part.unlink()


def _ended(record: Record) -> Record:
    """With the end that its rank 0 had no time to write: an srun that gets SIGTERM has Slurm kill the ranks."""
    from busbw.records import End

    if record.end:
        return record
    reason = "Slurm put the job back into its queue, and killed the ranks before they could write an end"
    return replace(record, end=End(record.run.run, "interrupted", len(record.cases), reason=reason))


def _start(part: Path) -> int:
    number = part.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0


def meeting_places(launcher: str, job: JobSpec) -> list[str]:
    """Names that this machine must resolve before anything starts."""
    if launcher == "torchrun" and job.torchrun.endpoint:
        return [job.torchrun.endpoint.rpartition(":")[0]]
    return [host.name for host in job.hosts] if launcher in {"mpirun", "hydra"} else []


def kubernetes_name(run_id: str) -> str:
    """A name that no other job has: the end of the run's, which is random."""
    return "busbw-" + run_id.rsplit("-", 1)[-1].lower()


def plan_of(launcher: str, job: JobSpec) -> LaunchPlan:
    """The plan of that launcher; an mpirun that is MPICH's speaks hydra's words."""
    if launcher == "mpirun" and job.mpi is Mpi.HYDRA:
        plan = planner("hydra").plan(job)
        return _started_by(plan, job.launcher_program or "mpirun")
    return planner(launcher).plan(job)


def _started_by(plan: LaunchPlan, program: str) -> LaunchPlan:
    process = plan.processes[0]
    return replace(plan, processes=(replace(process, argv=(program, *process.argv[1:])),))


def _timeout(launcher: str, job: JobSpec) -> float | None:
    # An srun without an allocation may wait for one longer than its ranks may run; Slurm itself ends them then.
    queues = launcher in {"slurm", "srun"} and not os.environ.get("SLURM_JOB_ID")
    return None if queues else job.time_limit
