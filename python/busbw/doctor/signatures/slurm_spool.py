"""Slurm's spool folder is shared by nodes, or holds what a dead step left."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def _tell(groups: Sequence[Mapping[str, str]]) -> str:
    """With the folder, where it is known to be one that nodes share."""
    socket = next((each["socket"] for each in groups if "socket" in each), "")
    folder = next((each["spool"] for each in groups if "spool" in each), "")
    if any("share" in each for each in groups) and (not folder or socket.startswith(folder.rstrip("/") + "/")):
        where = f" ({folder})" if folder else ""
        return f"Slurm's spool folder{where} is on a file system that nodes share: each finds the other's socket there"
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
        r"\bSlurmdSpoolDir\s{0,30}= ?(?P<spool>/\S{1,200})",
        r"(?:^|\s)[\w.@:-]{1,80}:/\S{0,200}\s{1,20}(?P<share>nfs4?|lustre|beegfs\w*|gpfs|ceph|weka\w*)\s{1,20}\d",
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
