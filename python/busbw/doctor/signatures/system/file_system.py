"""A file system fails."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="file-system",
    stage=Stage.SYSTEM,
    title="a file system fails under the job",
    patterns=(
        r"\bcuFile\w* (?:error|failed)|\bnvidia-fs (?:driver )?is not loaded|\bCU_FILE_\w+ (?:error|failed)",
        r"nvme\d+: I/O .{0,40}(?:timeout|aborting)",
        r"I/O error, dev (?:nvme|sd)",
        r"Stale file handle",
        r"Transport endpoint is not connected",
        r"Read-only file system",
        r"(?:\[Errno 5\]|\bEIO\b|OSError|IOError|\b(?:read|write|open|stat|load|copy|cp|ls|cat|dd|mv)\w*\b|'"
        r"|/\S{3,200}).{0,80}Input/output error",
        r"nfs: server .{0,60}not responding, timed out",
        r"(?:beegfs|wekafs\w*)\b.{0,120}(?:[Cc]ommunication error|unresponsive|not respond|timed out)",
        r"has been expelled from the cluster|Reason: SGPanic",
        r"LustreError|\bmmfs\w*: |GPFS.{0,40}(?:unmounted|not mounted|lost)",
        r"ceph: .{0,60}(?:hung|lost|evicted|blacklist)",
        r"EXT4-fs error|XFS \(\S{1,30}\): .{0,60}(?:[Cc]orrupt|shut)|Buffer I/O error on|Structure needs cleaning",
        r"\[Errno (?:5|37|116|121)\]|Remote I/O error|Connection timed out: '/",
        r"PytorchStream(?:Reader|Writer) failed",
        r"SafetensorError: .{0,60}(?:InvalidHeader|incomplete|MetadataIncomplete)",
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
        "net/ofi",
        # Calls of RDMA fail by the same number.
        "ibv_",
        "ibvwrap",
        "qp",
    ),
    confirm="`dmesg | tail`; mount; touch a file there",
    cure="mend or mount the file system again; keep code and data on one that all nodes reach",
    source="errno ESTALE, EROFS, EIO",
)
