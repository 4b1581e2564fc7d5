"""The scheduler ended the job."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="job-cancelled",
    stage=Stage.LAUNCH,
    title="the scheduler ended the job: time limit, preemption or somebody's cancel",
    patterns=(
        r"\b(?P<why>Evicted(?:DueTo\w+)?)\b",
        r'"EventType" ?: ?"(?P<why>Preempt|Terminate|Redeploy|Reboot)"',
        r"\b(?P<why>SPOT_ITN|Spot ITN|Spot interruption|[Ii]nstance will be (?:interrupted|terminated|stopped)"
        r"|REBALANCE_RECOMMENDATION|ACPI G2 Soft Off|TERMINATE_ON_HOST_MAINTENANCE)\b",
        r"DUE TO (?P<why>TIME LIMIT)",
        r"CANCELLED AT .{0,40}DUE TO (?!NODE|SIGNAL)(?P<why>[A-Z ]{3,30})",
        r"JOB \S+ ON \S+ CANCELLED AT",
        r"DUE TO (?P<why>PREEMPTION)\b",
        r"(?<![/\w])(?P<why>preempted)(?![/\w])",  # "preempted/died/restarted": who guesses at reasons
        r"(?<!status: )(?<!code = )(?P<why>DeadlineExceeded)(?!Error)",
        r"Received 1 death signal|SIG(?:INT|HUP) death signal",
        r"(?:^|[\]:] )(?P<why>KeyboardInterrupt)\W*$",
        r"closing signal SIGHUP|SignalException: Process \d+ got signal: (?:2|10|12)\b",
        r"got signal: 1\b",
        r"Signal 1 \(SIGHUP\)",
        r"PBS: job killed: (?:walltime|cput|ncpus)",
        r"\bTERM_(?:RUNLIMIT|CPULIMIT|OWNER|ADMIN|PREEMPT|LOAD|WINDOW|DEADLINE|REQUEUE\w*)\b",
        r"job killed after reaching LSF (?:run|CPU)",
        r"exceeded (?:hard|soft) (?:wallclock|wall clock|run) time",
        r"job was (?:evicted|held|preempted)",
        r"\bPodGroup\b.{0,80}(?:unschedulable|timed? ?out)",
        r"activeDeadlineSeconds|was active on the node longer than",
        # Services that build and test, and `timeout -v`.
        r"exceeded the maximum execution time|execution took longer than \d|ran longer than the maximum time",
        r"user-provided time limit for job execution has been reached|^APPLICATION TIMED OUT, TIMEOUT = \d",
        r"^timeout: sending signal (?:TERM|KILL|INT|HUP) to command|\bjob\.exception type=timeout",
    ),
    unless=(
        "e.g. preemption",
        "got preempted, or crashed",
        "due to task failure",
        "node failure",
        "node_fail",
        "node fail",
        "low on resource",
        "client was evicted",
    ),
    explains=("process-crashed",),
    confirm="sacct -j JOB -o State,ExitCode,NodeList,Reason; kubectl get events",
    cure=(
        "ask for more time (--time), requeue with checkpoints; after a node failure leave that node "
        "out (--exclude) and have it checked"
    ),
    source="Slurm's own words",
)
