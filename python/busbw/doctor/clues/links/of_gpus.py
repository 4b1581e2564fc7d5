"""What only follows from an error of a GPU or its driver: cause, words of it, sequels, words that all of those say."""

from __future__ import annotations

import re

from busbw.doctor.clues.links.link import Link

_CALLS = r"unspecified launch|LaunchFailure|LAUNCH_FAILED|^thrown at|^called in"
_ROWS: tuple[tuple[str, str, frozenset[str], str], ...] = (
    # Others look for the store on a node whose program found no GPU, and ended before it opened one.
    *((name, "", frozenset({"master-unreachable"}), "") for name in ("driver-mismatch", "driver-not-loaded")),
    # The hook that adds GPUs to a container asks the same driver.
    *(
        (name, "", frozenset({"container-start"}), r"hook|nvidia-container|nvml|NVML|Auto-detected mode")
        for name in ("driver-mismatch", "driver-not-loaded", "nvml-missing")
    ),
    # What the switches tell is in the title of the GPU that was lost with them.
    ("gpu-off-bus", r"NVSwitches report fatal errors of links", frozenset({"nvswitch-error"}), ""),
    # A link that fails for good takes the kernels along that use it, and their channels.
    ("nvlink-error", r"\): 14[4-9]\b.{0,80}\bFatal\b|\): 150\b.{0,80}\bFatal\b", frozenset({"illegal-access"}), _CALLS),
    (
        "nvlink-error",
        r"\): 14[4-9]\b|\): 150\b",
        frozenset({"gpu-exception"}),
        r"\): 137\b[^\n]{0,120}\b[Ll]ink \d{1,2}\b",
    ),
    ("nvlink-error", r"^an NVLink of a GPU is faulty", frozenset({"straggler"}), ""),
    # What mends a GPU changes by the error that stands beside it.
    *(
        (name, "", frozenset({"gpu-error-other"}), r"\): 154\b|[Rr]ecovery [Aa]ction")
        for name in ("gpu-off-bus", "gpu-memory-error", "nvlink-error", "gpu-firmware", "gpu-sram-worn")
    ),
    # What the IOMMU makes of transfers, where it is said to, and what programs compute of it.
    ("iommu-translates", r"values that arrive are wrong", frozenset({"iommu-fault", "not-a-number"}), ""),
    # Rates between GPUs that their own bridges turn up to the root.
    ("iommu-fault", r"^PCI ACS is on", frozenset({"p2p-matrix"}), ""),
    ("iommu-fault", r"hipIpcGetMemHandle", frozenset({"cuda-ipc", "nccl-warnings"}), r"hipIpc|CUDA IPC handle|p2p\.cc"),
    ("topology-hidden", "", frozenset({"no-gdr"}), ""),
    # A tray apart is what the masks of the others may tell of.
    ("fabric-not-joined", "", frozenset({"fabric-degraded"}), "healthMask"),
)
OF_GPUS = (
    *(Link(name, re.compile(words), sequels, re.compile(only)) for name, words, sequels, only in _ROWS),
    # Ranks whose peer was lost by its GPU wait in whatever call of theirs needs it, each group in another one.
    Link(
        "gpu-memory-error",
        re.compile(r"uncorrectable ECC error|\bContained: |\): (?:48|94|95)\b"),
        frozenset({"collective-order"}),
        first=True,
    ),
    Link(
        "gpu-off-bus",
        re.compile(r"\): 79\b|fallen off the bus"),
        frozenset({"collective-order", "collective-mismatch"}),
        first=True,
    ),
)
