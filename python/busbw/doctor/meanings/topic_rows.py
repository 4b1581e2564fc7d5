"""Which words name which part of the system, and so the signature that is nearest to an error nobody knows."""

from __future__ import annotations

import re

# The first that fits decides: parts of the machine before programs, and programs before what any of them may say.
TOPICS = tuple(
    (re.compile(words, re.IGNORECASE), name)
    for words, name in (
        (
            r"FaultCode: NHC|\bnhc\b|\bdcgm|\bnvvs\b|^ERROR: check_\w+:|\bhost ?engine\b|\bmiscompare\b|NVML API",
            "health-check",
        ),
        (r"\bimex\b|compute-?domain", "imex"),
        (r"fabric-?manager|nv-fabricmanager|\bnvlsm\b|\bfabric state\b|FABRIC_MANAGER", "fabric-manager"),
        (r"nvswitch|\bsxid\b", "nvswitch-error"),
        (r"nvlink(?!_transport)", "nvlink-error"),
        (r"\[ERROR\] \[tid \d+\]", "fabric-manager"),
        (
            r"\becc\b|double[- ]bit|row[- ]remap|uncorrectable|memory elements|retired pages"
            r"|SRAM threshold|contained error",
            "gpu-memory-error",
        ),
        (r"peer-to-peer test", "p2p-broken"),
        (r"gpu.{0,60}(?:thermal|temperature|throttl|overheat|power)|(?:thermal|power) violation", "gpu-slowdown"),
        (r"certificate|x509|\bssl\b.{0,40}(?:verif|handshake)", "certificate"),
        (r"\bpcie\b|\baer\b|pcieport", "pcie-errors"),
        (r"\bxid\b|inforom|field diag", "gpu-error-other"),
        (r"(?-i:\bMCE\b)|machine check|\bEDAC\b", "machine-check"),
        (
            r"^\[ERROR\] (?![A-Z_]+\()|level=\W?(?:error|fatal)\W{1,3}msg=|nvidia-container|\bcdi\b|enroot|pyxis"
            r"|\brunc\b|containerd|oci runtime",
            "container-start",
        ),
        (r"nvshmem|ibgda", "nvshmem-init"),
        (r"symmetric_?mem|symm_mem", "window-mismatch"),
        (r"\bcoordination[ _](?:service|agent)|JAX distributed service|distributed_runtime", "xla-error"),
        (
            r"\bnixl|mooncake|lmcache|(?:^|\W)[EF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w/]{1,80}\.(?:cpp|h):\d+\]"
            r"|\] ?(?:TransferEngine|HandShake\w*|\w{2,12}Transport|(?:Client|Server)Session): "
            r"|\b\w{0,20}(?:transport|endpoint|context|metadata|worker_pool|backend|agent|engine_impl)\w{0,16}"
            r"\.(?:cpp|h):\d{1,6}\]",
            "kv-transfer",
        ),
        (r"cannot open shared object", "library-not-found"),
        (r"libfabric:\S{0,40}:cxi:|\bcxi[pl]?_|slingshot", "slingshot"),
        (
            r"libfabric:\S{0,40}:(?:verbs|tcp|rxm|rxd|shm|sm2|sockets|udp|net|psm\w?|opx|lnx|hook\w*|core):",
            "mpi-network",
        ),
        (r"libfabric|\befa\b|net/ofi|\bfi_[a-z]+", "efa-error"),
        (r"gdrcopy|gdrdrv|gdrapi|\bgdr_\w+", "gdrcopy"),
        (r"\bsharp\w*\b|collnet", "sharp"),
        (r"\bosm_\w+|\bopensm\b|\bSubn(?:Get|Set)\b", "ib-port-down"),
        (r"peer_?mem\b|gpu ?direct|\bdma-?buf", "gdr-unavailable"),
        (
            r"mlx5|infiniband|\bib\d{1,3}: |\bibv_|\brdma|rdma\b|registerrdma|uverbs|\bQP\b|\bGID\b|\broce\b"
            r"|\bhca\b|\bU?MADs?\b|\bCQE?\b|\bSRQ\b|\bMR\b"
            r"|mcast group|run_iter|IB (?:device|connection)",
            "ibv-call-failed",
        ),
        (r"nvrm|nvidia (?:driver|module)|nvidia\.ko|libcuda|nvidia-(?:uvm|modeset|drm)|\bNV_ERR_", "driver-not-loaded"),
        (r"amdgpu|\brocm\b|\bkfd\b|\bhsa_", "amd-gpu-error"),
        (r"/dev/shm|shared memory", "shm-full"),
        (r"hcoll|\bLOG_CAT_", "mpi-other"),
        (r"\bfilelock\b|file lock", "file-system"),
        (r"out of memory|\boom\b|cannot allocate|bad_alloc", "host-memory"),
        (r"no space left|quota|disk full", "disk-full"),
        (
            r"\bnvme|\bblk_|\bsd[a-z]\b.{0,20}sector|lustre|\bnfs\b|\bgpfs\b|ext4|\bxfs\b|\bceph\b|stale file"
            r"|input/output|read-only file|checkpoint file|file (?:write|read) failed|_file_(?:system|block_cache)\.cc",
            "file-system",
        ),
        (
            r"\bnode\b(?!-\d{1,6}\]).{0,80}(?:lost|reachable|fail|not respond|evicted|reclaimed)"
            r"|\binstance\b.{0,60}(?:lost|terminat)",
            "node-lost",
        ),
        (r"name or service|resolve (?:host|address)|getaddrinfo|gai error", "dns"),
        (r"host key|\bssh\b|publickey", "ssh-launch"),
        (r"slurm|\bsrun\b|sbatch", "slurm-error"),
        (
            r"^[EF]\d{4} \d\d:.{0,30}\b\w{1,60}\.go:\d{1,6}\]|kubelet|\bpods?\b|scheduler-plugins|\bjobset\b|mpijob"
            r"|pytorchjob",
            "kubernetes-event",
        ),
        (r"^(?!.*(?:Error: .*must be|required but not)).*(?:rendezvous|\brdzv|\betcd\b)", "rendezvous-timeout"),
        (r"tcpstore|\bc10d\b.{0,60}store", "store-lost"),
        (r"\bgloo\b", "gloo-error"),
        (r"\bpmix|\bpmi2?\b", "pmi"),
        (r"^MPI says: ", "mpi-launch"),
        (
            r"\bucx\b|\buct_|\bucp_|\bmca_\w+|\bompi|open mpi|\bmpi_\w|\bprted?\b|\borted?\b|hydra_|mpiexec|mpirun"
            r"|\bcoll_\w+\.c\b|\bjsm\b|\bjsrun\b",
            "mpi-other",
        ),
        (r"^\W{0,2}\[[\w.-]{1,60}:\d{4,7}\] (?!NCCL )", "mpi-other"),
        (r"connection refused", "connection-refused"),
        (r"no route to host|network is unreachable", "no-route"),
        (r"nccl", "nccl-error"),
        (r"\bcuda\w*|\bcu(?:Mem|Ctx|Init|Stream|Event|Device|Launch)\w+", "cuda-call-failed"),
        (r"\braylet\b|\bray\.|\bgcs_", "ray-error"),
        (r"\bxla\b|pjrt|coordination.service|\bjax\b(?!\.errors\.(?:Concr|Tracer|Unexp|NonCon|Key))", "xla-error"),
        (r"connection (?:reset|closed|aborted|lost)|broken pipe|peer (?:closed|gone)", "remote-error"),
        (r"\bheartbeats?\b|\bhung\b|\bstuck\b|deadlock", "watchdog-timeout"),
        (r"command not found|unrecognized|no such option", "bad-arguments"),
        (r"permission denied|operation not permitted", "gpu-permission"),
        (
            r"(?=.*(?:connect|socket|peer|network|\b(?:tcp|udp|rpc|grpc|http|send|recv|address|port|remote|host|application|pair)))"
            r".*(?:timed? ?out|deadline exceeded)",
            "connection-timeout",
        ),
        (
            r"(?:fail\w*|unable|cannot|can't|could not|couldn't) (?:to )?(?:re)?connect to \S{0,60}:\d",
            "connection-timeout",
        ),
        (r"^\W*(?:\[?\w*\]?:?\s*)?[A-Za-z_][\w.]*(?:Error|Exception)\b", "python-exception"),
    )
)  # fmt: skip
