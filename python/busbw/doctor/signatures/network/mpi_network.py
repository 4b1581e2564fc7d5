"""MPI's own network (UCX, the TCP transport) fails, before or beside NCCL."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="mpi-network",
    stage=Stage.NETWORK,
    title="the transport of MPI or NIXL (UCX, TCP) cannot reach its peers or its device",
    patterns=(
        # Capitals are of the program: who tells of "UCX errors" quotes none.
        r"(?-i:UCX +ERROR)\b",
        r"\bUCC +ERROR|\bTL_\w{2,8} +ERROR",
        r"btl_tcp_\w+.{0,160}(?:unexpected process identifier|failed|error|unreachable)",
        r"mca_btl_\w+.{0,120}(?:unexpected|failed|error)",
        r"Open MPI failed an OFI Libfabric library call",
        r"OFI MTL was not able to find endpoint information|PSM2 was unable to open an endpoint",
        r"Open MPI failed to (?:TCP connect|handshake) (?:to|with) a",
        r"An invalid value was given for (?:btl|oob)_tcp_if_(?:in|ex)clude|Unknown interface name",
        r"Open MPI accepted a TCP connection from what appears",
        r"cannot find a corresponding process\s+entry for that peer|help-mpi-btl-tcp\.txt / (?:dropped|client)",
        r"did not receive entire connect ACK from peer|remote peer unexpectedly closed connection while",
        r"\bmca_\w+: unable to|\bmca_\w+: could not|\bmca_\w+: cannot",
        r"[Tt]he selected PML was \w+ on|pml_ucx\S* .{0,60}(?:unavailable|not available)",
        r"PML add procs failed|No components were able to be opened in the (?:pml|btl|mtl|bml) framework",
        r"at least one pair of MPI processes are unable to reach each other",
        r"\bpml_ucx\.c:\d+ +Error",
        r"MPIDI_OFI_\w+.{0,80}(?:fail|error)",
        r"\(ofi_\w{2,30}\.[ch]:\d+:\w|\bOFI \w[\w ]{2,40} failed",
        r"PSM\d? (?:can't open|no hfi units)",
        r"\bhfi\d?_\w+.{0,60}(?:fail|error|can't)|PSM\d?\b.{0,40}(?:fail|error|could not)",
        r"(?:ifname|host/port description) in business card|business card.{0,60}(?:fail|invalid|error)",
    ),
    unless=("transport retry", "is not available", "no space left", "shm", "cannot open shared object"),
    explains=(
        "pmi",
        "process-crashed",
        "killed-by-launcher",
        "pmi",
    ),
    confirm="mpirun --mca btl_base_verbose 30 hostname; ucx_info -d; UCX_LOG_LEVEL=info",
    cure=(
        "name the network that all nodes share: --mca btl_tcp_if_include eth0, UCX_NET_DEVICES=mlx5_0:1 (or "
        "--mca pml ob1 --mca btl tcp,self); NCCL itself needs MPI for its start only"
    ),
    source="Open MPI's opal/mca/btl/tcp and UCX",
)
