"""Slurm's spool folder is shared by nodes, or holds what a dead step left."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def _tell(groups: Sequence[Mapping[str, str]]) -> str:
    """With the folder, where it is known to be one that nodes share."""
    socket = next((each["socket"] for each in groups if "socket" in each), "")
    folder = socket.rpartition("/")[0]
    if any(socket.startswith(each["share"].rstrip("/") + "/") for each in groups if "share" in each):
        return f"Slurm's spool folder ({folder}) is on a file system that nodes share: each finds the other's socket"
    return (
        f"Slurm cannot make its socket {socket}: nodes share the spool folder (SlurmdSpoolDir), or a dead step left "
        "the file there"
    )


SIGNATURE = Signature(
    name="slurm-spool",
    stage=Stage.SYSTEM,
    title="Slurm cannot make a socket in its spool folder",
    tell=_tell,
    patterns=(
        r"[Cc]annot bind\(?\)? (?:to )?UNIX socket (?P<socket>/\S{1,200}?):? .{0,20}(?:in use|exists)",
        # Rows of `df -T` and `mount`.
        r":/\S{0,200}\s{1,20}(?:nfs4?|lustre|beegfs\w*|gpfs|ceph|weka\w*)\s.{1,120}%\s{1,8}(?P<share>/\S{1,200})\s*$",
        r"\bon (?P<share>/\S{1,200}) type (?:nfs4?|lustre|beegfs\w*|gpfs|ceph|weka\w*)\b",
    ),
    holds=lambda groups: any("socket" in each for each in groups),
    explains=("port-in-use", "pmi", "mpi-network", "slurm-error", "slurm-setup", "mpi-launch"),
    confirm="scontrol show config | grep SlurmdSpoolDir; df -hT on that folder on two nodes",
    cure=(
        "set SlurmdSpoolDir in slurm.conf to a folder of each node's own disk (/var/spool/slurmd), or with %n in its "
        "path, and restart slurmd on all nodes. Where it is local already, remove the socket of the dead step"
    ),
    source="Slurm src/plugins/mpi/pmix (pmixp_usock_create_srv); slurm.conf: SlurmdSpoolDir",
)
