"""Two processes of one job believe that they are the same rank."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ranks-alike",
    stage=Stage.LAUNCH,
    title="several processes took global rank {rank} of {size}: each was started as if it were another job's",
    patterns=(
        r"initializing \w+: GLOBAL_RANK: (?P<rank>\d+), MEMBER: \d+/(?P<size>\d+)",
        r"(?:Rank|rank)[ =:]+(?P<rank>\d+)[,/ ]+(?:of |world[_ ]size[ =:]+)(?P<size>\d+).{0,60}"
        r"(?:joining|initializing) (?:the )?process group",
        # vLLM and SGLang tell it once on each host.
        r"world_size=(?P<size>[2-9]\d{0,5}|1\d{1,5}) rank=(?P<rank>\d+) local_rank=\d+ "
        r"distributed_init_method=tcp://(?P<store>(?!127\.|localhost)\S{3,80}) backend=nccl",
        r"'nnodes': (?P<size>[2-9]\d{0,4}|1\d{1,4}), 'node_rank': (?P<rank>\d+),",
        r"\bdist_init_addr='(?P<store>[^']{3,80})', nnodes=(?P<size>[2-9]\d{0,4}|1\d{1,4}), node_rank=(?P<rank>\d+),",
    ),
    explains=("rendezvous-timeout", "watchdog-timeout", "duplicate-gpu", "connection-timeout"),
    confirm="count the lines of each rank; print RANK, LOCAL_RANK, WORLD_SIZE and SLURM_PROCID in each process",
    cure=(
        "start one process per GPU with srun (--ntasks-per-node equal to devices, --nodes to num_nodes). Or start one "
        "torchrun (vllm serve, sglang) per node with its own --node-rank, 0 to "
        "nnodes - 1, but not both. Unset ranks that an outer launcher left behind"
    ),
    source="pytorch_lightning and lightning.fabric: their line at start",
    repeats=True,
)
