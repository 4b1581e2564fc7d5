"""A tray of an NVLink domain whose GPUs have not joined its fabric, while those of others have."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

_ZERO = "0-."


def _sides(groups: Sequence[Mapping[str, str]]) -> tuple[list[str], list[str]]:
    """The hosts whose GPUs are in no fabric, and those whose GPUs are in one."""
    out, joined = dict[str, None](), dict[str, None]()
    for each in groups:
        if "fabric" in each:
            (joined if each["fabric"].strip(_ZERO) else out)[each.get("host", "")] = None
    return [host for host in out if host], list(joined)


def _holds(groups: Sequence[Mapping[str, str]]) -> bool:
    """Whether hosts of one job differ: without any fabric they are no racks of one domain."""
    out, joined = _sides(groups)
    return bool(out and joined and set(out).isdisjoint(joined))


def _tell(groups: Sequence[Mapping[str, str]]) -> str:
    out, joined = _sides(groups)
    which = f"{', '.join(out[:4])}{' and others' if len(out) > 4 else ''}"
    why = next((each["why"] for each in groups if "why" in each), "")
    said = f", Status: {why}" if why else ""
    has = f" ({', '.join(each for each in joined[:2] if each)} has them)" if any(joined) else ""
    return (
        f"the GPUs of {which} have not joined the NVLink fabric: no ClusterUUID and no CliqueId{said}{has}. "
        "NCCL goes over NICs between it and the others, and warns of nothing"
    )


SIGNATURE = Signature(
    name="fabric-not-joined",
    stage=Stage.HARDWARE,
    title="the GPUs of a tray have not joined the NVLink fabric of the others",
    tell=_tell,
    patterns=(
        r"(?:^|\s)(?P<host>[A-Za-z][\w.-]{0,80}):\d{1,10}:\d{1,10} \[-?\d{1,3}\] NCCL INFO MNNVL busId \S{1,20} "
        r"fabric UUID (?P<fabric>[\da-f.]{3,40}) cliqueId 0x[\da-f]{1,8}\b",
        r"^\s{0,6}(?P<host>[A-Za-z][\w.-]{0,80}): {1,40}ClusterUUID\s{0,40}: ?(?P<fabric>[\da-fA-F-]{8,40})\s*$",
        r"^\s{0,6}(?P<host>[A-Za-z][\w.-]{0,80}): {1,40}Status\s{2,40}: ?"
        r"(?P<why>Insufficient Resources|Invalid State|Timeout|Unknown Error|Not Supported)\s*$",
    ),
    holds=_holds,
    explains=("fabric-manager", "imex"),
    confirm="nvidia-smi -q | grep -A12 Fabric on every host: State Completed, Status Success, one ClusterUUID on all",
    cure=(
        "drain the tray that is named, not the others, and reset its GPUs or power-cycle it (nvidia-smi -r). The "
        "fabric manager and NMX-C of the rack say why it was refused: the partition, a port of a switch, other "
        "firmware. Put it back once its Fabric Status is Success. IMEX may be READY all the while, and InfiniBand is "
        "not slow: it is only not NVLink"
    ),
    cost="every byte to and from that tray goes over NICs, at a small part of NVLink's rate",
    versions="GB200, GB300 and other NVLink domains over hosts",
    source="nvml.h: nvmlGpuFabricInfoV_t; NCCL src/init.cc; NVIDIA's NVLink domain guides",
)
