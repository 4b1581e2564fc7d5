"""A file system fails."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="file-system",
    stage=Stage.SYSTEM,
    title="a file system fails under the job",
    patterns=(
        r"nvme\d+: I/O .{0,40}(?:timeout|aborting)",
        r"I/O error, dev (?:nvme|sd)",
        r"Stale file handle",
        r"Transport endpoint is not connected",
        r"Read-only file system",
        r"Input/output error",
        r"nfs: server .{0,60}not responding",
        r"LustreError",
    ),
    unless=(
        "shm",
        "ucx",
        "ucp_",
        "mpi_",
        "pml_",
        "md reg",
        "rc_iface",
        "libfabric",
        "nvme",
        "net/ofi",
        "net/ofi",
    ),
    confirm="`dmesg | tail`; mount; touch a file there",
    cure="mend or mount the file system again; keep code and data on one that all nodes reach",
    source="errno ESTALE, EROFS, EIO",
)
