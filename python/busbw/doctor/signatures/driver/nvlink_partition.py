"""Hosts of one job are in different partitions of NVLink, or in different racks."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def _cliques(groups: Sequence[Mapping[str, str]]) -> list[int]:
    """The numbers of all cliques that are named, in whatever base."""
    found = {int(each[name]) for each in groups for name in ("clique", "other") if name in each}
    return sorted(found | {int(each["hex"], 16) for each in groups if "hex" in each})


def _racks(groups: Sequence[Mapping[str, str]]) -> set[str]:
    """The fabrics that are told apart; one of zeros is none.

    nvidia-smi tells the bytes of a name in their order, NCCL two numbers that are made of them: each is comparable with
    its own kind alone.
    """
    told = {each["rack"].lower() for each in groups if each.get("rack", "").strip("0-.")}
    of_nccl = {each for each in told if "." in each}
    of_driver = {each.replace("-", "") for each in told - of_nccl}
    return max(of_driver, of_nccl, key=len)


def _holds(groups: Sequence[Mapping[str, str]]) -> bool:
    """Whether memory of a peer could not be opened, and hosts tell different cliques or fabrics."""
    refused = any("refused" in each for each in groups)
    return refused and (len(_cliques(groups)) > 1 or len(_racks(groups)) > 1)


def _tell(groups: Sequence[Mapping[str, str]]) -> str:
    """With the numbers that differ."""
    numbers = _cliques(groups)
    if len(numbers) < 2:
        return "the hosts are of different NVLink fabrics (ClusterUUID), so that none can open memory of the other"
    shown = ", ".join(map(str, numbers[:4]))
    return f"the hosts are in different partitions of NVLink (CliqueId {shown}): none can open memory of the other"


SIGNATURE = Signature(
    name="nvlink-partition",
    stage=Stage.DRIVER,
    title="the hosts are in different partitions of NVLink",
    tell=_tell,
    patterns=(
        r"^(?:[\w.-]{1,80}: {0,4})?\s{0,40}CliqueId\s{0,40}: ?(?P<clique>\d{1,9})\s*$",
        r"^(?:[\w.-]{1,80}: {0,4})?\s{0,40}ClusterUUID\s{0,40}: ?(?P<rack>[\da-fA-F-]{8,40})\s*$",
        r"\"cliqueID\": ?\"[\w-]{4,40}\.(?P<clique>\d{1,9})\""
        r"(?:.{1,400}\"cliqueID\": ?\"[\w-]{4,40}\.(?P<other>\d{1,9})\")?",
        r"nvidia\.com/gpu\.clique\W{1,4}[\w-]{4,40}\.(?P<clique>\d{1,9})",
        r"\bfabric UUID (?P<rack>[\da-f.]{3,40}) cliqueId 0x(?P<hex>[\da-f]{1,8})\b",
        r"(?P<refused>cuMemImportFromShareableHandle|open_mnnvl_memory|cuMemImport\w{0,30}.{0,60}(?:fail|invalid))",
        r"(?P<refused>fail\w*|error|cannot|unable).{0,60}import\w* .{0,30}(?:fabric|shareable|memory) handle",
    ),
    # NCCL itself joins only what is of one clique, and goes over the NICs elsewhere.
    unless=("nccl warn",),
    holds=_holds,
    explains=("cuda-call-failed", "imex", "python-exception", "cuda-ipc", "fabric-degraded"),
    confirm="nvidia-smi -q | grep -A4 Fabric on every host: ClusterUUID and CliqueId must be equal on all of them",
    cure=(
        "place all ranks that share memory on trays of one partition: the same ClusterUUID.CliqueId, in Kubernetes the "
        "label nvidia.com/gpu.clique, in Slurm --segment with topology/block. Else put the tray back into the default "
        "partition (NMX-C, NVOS: nv show sdn partition), or go over the NICs"
    ),
    versions="GB200, GB300 and other NVLink domains over hosts",
    source="NVIDIA IMEX and NMX guides; CUDA's fabric handles",
)
