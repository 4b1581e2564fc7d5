"""Slurm refuses what the job asks for."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="slurm-resources",
    stage=Stage.LAUNCH,
    title="the scheduler could not give the job what it asks for (GPUs, nodes, memory, quota, capacity)",
    patterns=(
        r"gres/gpu count (?:reported lower than configured|too low)",
        r"available GPUs \d+ is less than .{0,20}desired GPUs",
        r"couldn't assign flavors|insufficient (?:unused )?quota|podset .{0,40}(?:quota|not fit)"
        r"|workload .{0,60}not admitted",
        r"Queue \S{1,80} (?:doesn't exist|does not exist|is inactive|is stopped)",
        # PBS, LSF and SGE.
        r"qsub: (?:Illegal attribute|Unknown (?:queue|resource)|Unauthorized Request|Job (?:violates|exceeds)"
        r"|would exceed|Bad UID|Access to queue)",
        r"\bJob not submitted\b|^Unable to run job: .{5,120}",
        # Clouds and their autoscalers.
        r"VcpuLimitExceeded|MaxSpotInstanceCountExceeded|Out of host capacity|InsufficientHostCapacity"
        r"|limited EC2 capacity|NotTriggerScaleUp|FailedScaleUp|ResourcesUnavailableError",
        r"QuotaReached|exceed\w* (?:the )?quota|(?<!disk )quota (?:limit|exceeded)(?!.{0,20}OSTs)",
        r"No available node types can fulfill",
        r"(?:Cannot provide|Waiting for creating|[Tt]imed out.{0,40}) ?(?:a |the )?placement group",
        r"placement_?group.{0,60}(?:infeasible|cannot be|can not be|time)",
        r"(?:actor|task|bundle)s? (?:or task )?(?:with resource shapes .{0,60})?cannot be scheduled right now",
        r"is forbidden: exceeded quota",
        r"UnexpectedAdmissionError",
        r"number of required GPUs exceeds",
        r"InsufficientInstanceCapacity|ZONE_RESOURCE_POOL_EXHAUSTED|SkuNotAvailable|QuotaExceeded|AllocationFailed",
        r"does not have enough (?:resources|capacity|quota)",
        r"QOSMax\w+|AssocMax\w+|AssocGrp\w+",
        # Kubernetes' word; builders of engines leave tactics out for "insufficient memory".
        r"(?-i:Insufficient) (?:nvidia\.com/gpu|memory|cpu|rdma|vpc\.amazonaws\.com/efa)",
        r"FailedScheduling",
        r"ImagePullBackOff|ErrImagePull",
        r"Unschedulable",
        r"FailedMount",
        r"Invalid generic resource",
        r"step creation still disabled|to INVAL with reason",
        r"Requested node configuration is not available",
        r"Unable to (?:confirm|create|allocate) (?:allocation|step|resources)",
        r"More processors requested than permitted",
        r"Batch job submission failed: |Job submit/allocate failed: |Unable to (?:satisfy cpu bind|layout tasks)",
        r"srun: error: Unable to (?!initiali[sz]e|set|open|read|write|chdir|unpack|send|resolve|load|find|get)",
        # A program that cannot be started is no resource that lacks.
        r"slurmstepd: error:.{0,80}(?:cgroup|chdir|execve(?!\(\): .{1,200}(?:No such|Permission denied|Exec format)))",
        r"error: Memory specification",
        r"Invalid account or account/partition",
        r"(?:sbatch|srun|salloc): error: .{0,60}(?:[Ii]nvalid (?:partition|qos|user|account|time limit|feature))",
    ),
    unless=(
        "unhealthy",
        "sharp",
        "couldn't chdir",
        "gpu is lost",
        "mountvolume",
        "imagepull",
        "failedmount",
        "failedattach",
    ),
    confirm="scontrol show job JOB; sinfo -o '%n %G %T'; kubectl describe pod POD; ray status",
    cure=(
        "ask for what the partition has (--gres=gpu:N, --nodes, --mem), the same in srun as in sbatch; in a "
        "cloud: raise the quota, take another zone or size, or wait"
    ),
    source="Slurm's own words",
)
