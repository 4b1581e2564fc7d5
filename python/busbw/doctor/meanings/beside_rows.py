"""Rows of clues (as `clue_rows` has them) of programs that share a GPU, releases that do not fit, devices not given."""

from __future__ import annotations

_OF_SERVER = (
    r"\binit_communicator\b|\binit_weights?_update_group\b|\bvllm_client\.py|\btrl vllm-serve\b|\bvllm_serve\.py"
    r"|\bupdate_weights_from_distributed\b|\bWeightSync\w{0,20}|\bweight_update_group\b"
)
"""How trainers and servers of text join one communicator, by which new weights go to the server."""
_CARD = r"^\|\s{{1,6}}{}\s{{1,4}}(?:NVIDIA|Tesla|GeForce|Quadro|AMD)[^\n]{{3,60}}"
"""The row of a card in the table of nvidia-smi."""
_APART = (
    "give the server GPUs of its own: CUDA_VISIBLE_DEVICES=0 for it and CUDA_VISIBLE_DEVICES=1 (and further ones) for "
    'the trainer. With one GPU let the trainer generate itself: vllm_mode="colocate" (newer TRL), or use_vllm=False. '
    "NCCL refuses two ranks on one GPU in every release"
)
_FUSED = r"NET/IB : Made virtual device \[\d{1,3}\] name=(?P<name>\w{2,40}(?:\+\w{2,40}){1,7})"

_SMALL = (
    r"ulimit -\w{0,3}l\w{0,3}\b[^\n]{0,80}\n(?P<kib>\d{1,6})\s*$"
    r"|\bmax locked memory\s[^\n]{0,60}\s(?P<kib_>\d{1,6})\s*$"
    # Tasks of a launcher put their host in front, and other limits behind it.
    r"|\b(?:srun|mpirun|mpiexec|pdsh|clush)\b(?![^\n]{0,200}ulimit -n[^\n]{0,60}ulimit -l)[^\n]{0,200}\bulimit -l\b"
    r"[^\n]{0,80}\n[A-Za-z][\w.-]{0,60}:? {1,4}(?P<kib__>\d{1,6})(?: {1,4}(?:\d{1,12}|unlimited)){0,4}\s*$"
    r"|\(current: (?P<said>\d{1,7}) kbytes\)"
)
"""A limit on locked memory that a shell shows, in KiB."""
_NO_ULIMIT = r"\.Ulimits\b[^\n]{0,120}\n\s{0,8}(?P<none>\[\]|null|<no value>)|\"Ulimits\": (?P<no>\[\]|null)"
"""What `docker inspect` says of a container that was started without limits of its own."""
_LARGE = (
    r"ulimit -\w{0,3}l\w{0,3}\b(?!\W{0,3} to \W?unlimited)[^\n]{0,80}(?:\n|\b)[^\n]{0,40}\bunlimited\b"
    r"|\bmax locked memory\s(?!\(ulimit -l\) to)[^\n]{0,60}\bunlimited"
)
"""A limit that a shell shows, and not one that a program asks for."""

_EXPERTS = (
    r"\b(?:\w{0,30}Mixtral|Qwen\d\w{0,8}[Mm]oe|DeepSeek|OlmoE|DBRX|[Mm]oE|MOE|num_(?:local_)?experts|self\.experts)\b"
    r"|\.experts\.\d|\bexperts\["
)
_GATHERS = (
    r"partition_parameters\.py|partitioned_param_coordinator\.py|stage3\.py|\bZeRO-?3\b|\bzero3\b|\bzero_stage\W{1,4}3"
    r"|stage['\"]?: 3\b|fully_shard|FullyShardedDataParallel|\bFSDP2?\b|_fsdp_param_group\.py"
)
_SKIPS_EXPERT = (
    r"(?P<if>if [^\n]{0,80}(?:shape\[0\]|numel\(\)|len\([^\n]{0,30}\)|\.any\(\)|count)[^\n]{0,20}(?:== ?0|< ?1)?)"
    r":[^\n]{0,40}"
    r"(?:\n[^\n]{0,100})?\bcontinue\b"
)
_EXPERT_CURE = (
    "call every expert on every rank in each step: for one without tokens a dummy or empty input, added with factor 0. "
    "DeepSpeed: set_z3_leaf_modules(model, [the sparse block's class]) gathers the whole block at once (0.14 and "
    "newer). Or expert parallelism, or ZeRO-2. A longer time and NCCL's variables change nothing"
)

_LOGGED = (
    r"^[ \t]{0,40}for (?P<each>\w{1,30})\b[^\n]{0,40} in (?!self\.|range\(|enumerate\(self|[\[(])[^\n]{1,120}:\n"
    r"(?:[^\n]{0,200}\n){0,5}?[^\n]{0,80}\.log\(\s{0,30}(?P<name>f[\"'][^\n\"']{0,60}\{(?P=each)\b[^\n\"']{0,60}[\"'])"
    r"[^)]{0,200}\bsync_dist ?= ?True"
)
"""A loop over what a rank's data holds, in which each name is reduced over all ranks."""

BESIDE_ROWS = {
    "collective-order watchdog-timeout collective-mismatch calls-differ": rf"""
{_EXPERTS} && {_GATHERS} && {_SKIPS_EXPERT} ; experts without tokens are skipped ({{if}}), on each rank others, so that
 ranks gather the parameters of different experts (MoE under ZeRO-3 or FSDP): {{title}} ; {_EXPERT_CURE}
""",
    "collective-order": rf"""
{_EXPERTS} && {_GATHERS} && calls _(?:ALLGATHER|REDUCE_SCATTER)_BASE[^\n]{{0,200}}calls
 _(?:REDUCE_SCATTER|ALLGATHER)_BASE ; a mixture of experts under ZeRO-3 or FSDP: experts without tokens on a rank are
 not gathered there ({{title}}) ; {_EXPERT_CURE}
""",
    "collective-mismatch collective-order": rf"""
{_LOGGED} ; ranks log different names with sync_dist=True ({{name}}, a name for each {{each}} of the rank's own data): a
 rank that has one more calls one more collective ({{title}}) ;
 log the same names on all ranks in each step, with a value for those that the batch lacks. Or sync_dist=False and
 torchmetrics, which reduce at the epoch's end
""",
    "memlock": rf"""
{_SMALL} && {_LARGE} ; the limit on locked memory is {{kib}}{{kib_}}{{kib__}}{{said}} KiB where the ranks run,
 though another shell has none: too low for RDMA, and set by what starts the ranks ;
 LimitMEMLOCK=infinity for what starts them, and restart it: slurmd's unit (with PropagateResourceLimitsExcept=MEMLOCK
 in slurm.conf), the container runtime, sshd; docker --ulimit memlock=-1. ulimit -l within the job must say unlimited
{_SMALL} && {_NO_ULIMIT} ; the limit on locked memory is {{kib}}{{kib_}}{{kib__}}{{said}} KiB in the container, which
 was started without one of its own (docker inspect: Ulimits {{none}}{{no}}): too low for RDMA ;
 start the containers on all nodes with --ulimit memlock=-1 (compose: ulimits: memlock: -1) and --cap-add=IPC_LOCK, or
 set default-ulimits in /etc/docker/daemon.json. ulimit -l within them must say unlimited. The devices are there, and
 memory of host and GPUs suffices
{_SMALL} ; the limit on locked memory is {{kib}}{{kib_}}{{kib__}}{{said}} KiB here, too low for RDMA ; {{fix}}
""",
    "duplicate-gpu": rf"""
{_OF_SERVER} && {_CARD.format(0)} && !{_CARD.format(1)}
 ; the inference server and the trainer use the same GPU, the only one that nvidia-smi lists here: they are two ranks
 of the communicator that carries new weights ; {_APART}
{_OF_SERVER} ; the inference server and the trainer use the same GPU, and they are two ranks of the communicator that
 carries new weights ; {_APART}
jaxlib|XlaRuntimeError|JaxRuntimeError|jax\.distributed ; {{title}}: each process of JAX takes all GPUs that it sees ;
 one process per host without local_device_ids takes them all. With one process per GPU pass
 local_device_ids=[LOCAL_RANK] to jax.distributed.initialize, or give each its own CUDA_VISIBLE_DEVICES (Slurm:
 --gpus-per-task=1, Open MPI: of OMPI_COMM_WORLD_LOCAL_RANK)
""",
    "vm-topology": rf"""
Could not find NET with id \d && {_FUSED} && NCCL version (?P<version>2\.\d{{1,3}}\.\d{{1,3}}) ; NCCL {{version}} fused
 NICs ({{name}}), found no path with them, and then asks for a NIC by a number that fusing took away: a fault of that
 release ; another release of NCCL: newer (2.27 and later), or the one that works on these nodes. Until then switch
 fusing off on all ranks: NCCL_NET_MERGE_LEVEL=LOC. NICs, cables and NCCL_IB_HCA are right
Could not find NET with id \d && {_FUSED} ; NCCL fused NICs ({{name}}), found no path with them, and then asks for a NIC
 by a number that fusing took away: a fault of that release ; another release of NCCL (2.27 and later). Until then
 switch fusing off on all ranks: NCCL_NET_MERGE_LEVEL=LOC. NICs, cables and NCCL_IB_HCA are right
""",
    "python-exception": r"""
no_sync context manager is incompatible with gradient partitioning logic of ZeRO stage (?P<stage>[23]) &&
 (?:accelerate|transformers|trl|lightning)/[\w/.]{2,80}" ?, line|accelerator\.py:\d|trainer\.py:\d &&
 DeepSpeed info: version=(?P<version>0\.\d{1,3}\.\d{1,3}) ; DeepSpeed {version} refuses no_sync under ZeRO stage {stage}
 (as all since 0.16.0 do), and the trainer's library still enters it to accumulate gradients: the releases do not fit ;
 update transformers and accelerate to releases that leave no_sync out under DeepSpeed, or pip install
 deepspeed==0.15.4. Until then gradient_accumulation_steps=1
no_sync context manager is incompatible with gradient partitioning logic of ZeRO stage (?P<stage>[23]) ; DeepSpeed
 (0.16.0 and later) refuses no_sync under ZeRO stage {stage}, as its gradients are parted between ranks in each backward
 pass ; where the code of a library enters it (transformers, accelerate), update that library, or pip install
 deepspeed==0.15.4. In code of your own leave no_sync out: engine.backward and engine.step accumulate by
 themselves. Or ZeRO stage 1
""",
}
