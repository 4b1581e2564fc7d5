"""NVSHMEM cannot set up its transports (DeepEP and others need it)."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="nvshmem-init",
    stage=Stage.FAILURE,
    title="NVSHMEM cannot set up its transport between GPUs (IBGDA, IBRC)",
    patterns=(
        r"Symmetric heap allocation .{0,60}failed|/mem_heap\.cpp:\d+: non-zero status",
        r"\[NVSHMEM\] ERROR|nvshmem malloc failed",
        r"\.(?:cpp|cu|cc|h):\d+: (?:non-zero status|NULL value|non-equal)",
        r"nvshmem\S{0,60}/src/(?:host|modules|device|include)/\S{1,80}:\w{1,80}:\d+: "
        r".{0,120}(?:fail|error|unable|cannot|could not|abort|[Ii]nvalid|[Uu]nsupported|timed out"
        r"|not (?:found|allowed|loaded))",
        r"aborting due to error in \w",
        r"\b(?:ibrc|ibgda|ibdevx|mem_heap|team_internal|transport_ib_common|transport_mlx5_common|bootstrap_loader)"
        r"\.(?:cpp|cu):\d+: .{0,120}(?:fail|error|unable|cannot|[Ii]nvalid|\berr\b|not (?:found|support))",
        r"init failed for transport",
        r"Unable to initialize any transports",
        r"nvshmem.{0,160}(?:initialization failed|init failed|non-zero status|NULL value|setup connections? failed)",
        r"(?:ibgda|ibrc|ibdevx|transport|init)\.c\w{1,2}:\d+: (?:NULL value|non-zero status)",
        r"NVSHMEM API called before NVSHMEM initialization",
        r"device \S+ (?:cannot allocate buffer on the specified memory|is not enumerated as an mlx5)",
        r"cannot map UAR of device|PeerMappingOverride|no HCA supports",
        r"nvshmem\w* (?:setup|init|detect)\w* .{0,40}failed|modules/transport/\w+/\w+\.cpp.{0,120}(?:fail|error|not )",
        r"IB: read failed in ib_roce_get_version_num",
        r"mlx5dv_devx_uar|allocate_uar|create DCT share err",
    ),
    explains=("ibv-call-failed",),
    confirm="NVSHMEM_DEBUG=INFO; nvshmem-info -a; ibv_devinfo; nvidia-smi topo -m",
    cure=(
        "load nvidia_peermem or use DMA-BUF, allow the driver's PeerMappingOverride=1 for IBGDA, give the container "
        "/dev/infiniband and CAP_IPC_LOCK, name the NICs (NVSHMEM_HCA_LIST, NVSHMEM_IB_GID_INDEX); else "
        "NVSHMEM_IB_ENABLE_IBGDA=0"
    ),
    source="NVSHMEM src/host/transport, src/modules/transport",
)
