"""The channel of IMEX was never made on a host, though its service may run."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def _holds(groups: Sequence[Mapping[str, str]]) -> bool:
    """Whether a channel is missing, and memory over hosts was refused: a host without such an NVLink needs none.

    Where the whole domain is up and NCCL asks for the channel, it is the channel.
    """
    said = {name for each in groups for name in each}
    hints = [each["hint"].lower() for each in groups if "hint" in each]
    failed, joined = (any(each.startswith(word) for each in hints) for word in ("cuda", "fabric"))
    refused = "refused" in said or (failed and joined)
    return ("gone" in said and refused) or {"up", "asked"} <= said


def _tell(groups: Sequence[Mapping[str, str]]) -> str:
    """With what the service says of itself: where it is ready, only the channel is missing."""
    ready = any(each.get("hint") == "READY" or "up" in each for each in groups)
    title = "no channel of IMEX on this host, or in its container (/dev/nvidia-caps-imex-channels/channel0)"
    return f"{title}{'; its service is READY and not at fault' if ready else ''}"


SIGNATURE = Signature(
    name="imex-channel",
    stage=Stage.DRIVER,
    title="no channel of IMEX on this host, or in its container",
    tell=_tell,
    patterns=(
        r"(?P<gone>caps-imex-channels)\S{0,20}\W{1,4}(?:No such|not found|does not exist)",
        r"(?P<refused>MNNVL).{0,80}(?:not working|not supported)"
        r"(?:.{0,80}Check the (?P<asked>IMEX channel) configuration)?",
        r"(?P<hint>Cuda failure 80[01])\b",
        # Of zeros where GPUs have no fabric beyond their host.
        r"MNNVL busId \S{1,20} (?P<hint>fabric UUID (?!0\.0\b)[\da-f]{1,16})\.",
        r"(?P<refused>cuMem(?:Create|ImportFromShareableHandle|ExportToShareableHandle))\b.{0,60}"
        r"(?:fail|error|not permitted|invalid)",
        r"^(?:[\w.-]{1,80}: {0,4})?(?P<hint>(?-i:READY))\s*$",
        r"Domain state: *(?P<up>UP)\b",
    ),
    holds=_holds,
    explains=("imex", "nvls-multicast", "cuda-not-supported", "cuda-call-failed", "fabric-degraded"),
    confirm=(
        "ls -l /dev/nvidia-caps-imex-channels on each host and in the container; grep -i imex /proc/devices "
        "/proc/driver/nvidia/params"
    ),
    cure=(
        "make the channel on every host: options nvidia NVreg_CreateImexChannel0=1, nvidia-modprobe -c 0 -s -i 0 or "
        "Slurm's SwitchType=switch/nvidia_imex. Give it to the container (--device "
        "/dev/nvidia-caps-imex-channels/channel0; Kubernetes: a ComputeDomain). Until then NCCL_MNNVL_ENABLE=0"
    ),
    versions="NCCL 2.21 and later",
    source="NVIDIA IMEX guide; NCCL src/mnnvl.cc",
)
