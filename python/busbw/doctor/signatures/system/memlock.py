"""The limit on locked memory forbids RDMA buffers."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="memlock",
    stage=Stage.SYSTEM,
    title="the limit on locked memory (memlock) is too low for RDMA",
    patterns=(
        r"(?:regist\w+|memory_region|MemoryRegion|reg_mr)\b.{0,120}(?:Cannot allocate memory|code: 12,)",
        r"Cannot allocate memory\W{1,3}Failed to create qp",
        r"memlock limits? (?:are|is) (?:set )?too low",
        r"only allow registering part of your physical memory",
        r"ibv_(?:reg|create|alloc)_\w+(?:\([^)]{0,120}\))? failed.{0,40}(?:Cannot allocate memory|errno 12\b)",
        r"RLIMIT_MEMLOCK(?! ?[:=] ?unlimited|\W{1,4}-1\b).{0,60}(?:\b\d{1,8}\b|low|small|exceed|raise"
        r"|insufficient|(?<!un)limit|fail)",
        r"[Ff]ailed to register memory.{0,80}(?:Cannot allocate memory|\[12\])",
        r"max locked memory(?!.{0,80}(?:unlimited|\d{9})).{0,60}\s\d{1,8}\b",
        r"locked memory.{0,80}(?:\blimit|insufficient|too low)",
        r"ibv_create_qp.{0,60}Cannot allocate memory",
        r"ibv_reg_mr\w*\(.{0,120}failed: (?:Cannot allocate|Resource temporarily)",
        r"(?:mlx5dv_devx_obj_create|rdma_create_qp|failed to create \w+ QP)\b.{0,120}Cannot allocate memory",
        r"Unable to create (?:extended )?CQ: Cannot allocate memory",
        r"[Cc]all to ibv_create_[cq]+p? failed\s*$",
        r"Couldn't allocate MR|[Ff]ailed to create mr\b|Couldn't create (?:CQ|QP|PD)",
    ),
    explains=("ibv-call-failed",),
    confirm="ulimit -l in the job's own shell (Slurm, ssh and containers set their own)",
    cure=(
        "set memlock to unlimited: docker --ulimit memlock=-1, /etc/security/limits.conf, LimitMEMLOCK=infinity for "
        "slurmd or the container runtime. Where it is unlimited, the NIC has no room for more queue pairs: fewer "
        "connections, or newer firmware"
    ),
    source="NCCL src/misc/ibvwrap.cc; libibverbs src/init.c",
)
