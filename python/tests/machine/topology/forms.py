"""Forms in which people save and paste topologies: each with what must be read of it, or a word of the refusal."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Cell = Callable[[int, int], str]


@dataclass(frozen=True)
class Seen:
    """What a form shows: GPUs, NICs, one cell, NUMA nodes."""

    gpus: int
    nics: int = 0
    cell: tuple[str, str, str] | None = None
    numa: tuple[int | None, ...] | None = None


LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def near(gpu: int, nic: int) -> str:
    """A NIC below the switch of each GPU, four on a processor."""
    return "PIX" if gpu == nic else "NODE" if gpu // 4 == nic // 4 else "SYS"


def halves(one: int, other: int) -> str:
    """Four GPUs without NVLink, two on a processor."""
    return "NODE" if one // 2 == other // 2 else "SYS"


def matrix(
    gpus: int,
    cell: Cell,
    nics: int = 0,
    nic: Cell = near,
    name: str = "NIC{}",
    head: str = "CPU Affinity\tNUMA Affinity\tGPU NUMA ID",
    places: Callable[[int], str] | None = None,
) -> str:
    """`nvidia-smi topo -m` with its tabs."""
    at = places or (lambda i: "0-55,112-167\t0\t\tN/A" if i < max(1, gpus // 2) else "56-111,168-223\t1\t\tN/A")
    names = [name.format(i) for i in range(nics)]
    lines = ["\t" + "\t".join([f"GPU{i}" for i in range(gpus)] + names + [head] * bool(head))]
    for i in range(gpus):
        cells = [" X " if i == j else cell(i, j) for j in range(gpus)] + [nic(i, k) for k in range(nics)]
        lines.append("\t".join([f"GPU{i}", *cells, *[at(i)] * bool(head)]))
    for i in range(nics):
        cells = [nic(j, i) for j in range(gpus)] + [
            " X " if i == j else near(i, j).replace("PIX", "NODE") for j in range(nics)
        ]
        lines.append("\t".join([names[i], *cells, ""]))
    listed = (
        "\nNIC Legend:\n\n" + "".join(f"  NIC{i}: mlx5_{i}\n" for i in range(nics)) if name == "NIC{}" and nics else ""
    )
    return "\n".join(lines) + "\n" + LEGEND + listed


def spaces(text: str) -> str:
    """As a page shows it: tabs are spaces."""
    return "\n".join(
        "".join(f"{cell:<8}" if len(cell) < 8 else f"{cell}  " for cell in line.split("\t")).rstrip()
        if "\t" in line
        else line
        for line in text.split("\n")
    )


def before(label: str, text: str) -> str:
    """The same with something before each line."""
    return "\n".join(label + line for line in text.split("\n"))


def nv(links: int) -> Cell:
    """As many NVLinks between any two."""
    return lambda _one, _other: f"NV{links}"


H = matrix(8, nv(18), 8)
S = spaces(H)
FOUR = matrix(4, halves)
WHOLE = Seen(8, 8, ("GPU0", "GPU7", "NV18"))
PAIR = Seen(4, 0, ("GPU1", "GPU2", "SYS"), (0, 0, 1, 1))
PEERS = " \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n"
ROCM = (
    "====== Weight between two GPUs ======\n       GPU0         GPU1\nGPU0   0            15\nGPU1   15           0\n"
)


def damaged(line: int, old: str, new: str) -> str:
    """A matrix with one cell changed."""
    lines = H.split("\n")
    lines[line] = lines[line].replace(old, new, 1)
    return "\n".join(lines)


def wrapped(width: int) -> str:
    """Cut by a terminal."""
    return "\n".join(line[i : i + width] for line in S.split("\n") for i in range(0, max(1, len(line)), width))


READ: Mapping[str, tuple[str | bytes, Seen]] = {
    "tabs": (H, WHOLE),
    "spaces": (S, Seen(8, 8, ("GPU4", "mlx5_4", "PIX"))),
    "tabs lost": (re.sub(r"[ \t]+", " ", H), WHOLE),
    "heading at the margin": (
        "\n".join(line.strip() for line in spaces(matrix(8, nv(18), head="")).split("\n")),
        Seen(8),
    ),
    "mail quotation": (before(">>> ", spaces(FOUR)), PAIR),
    "comment of a script": (before("# ", spaces(FOUR)), PAIR),
    "comment of a program": (before("//  ", spaces(FOUR)), PAIR),
    "srun -l": (before("0: ", S), WHOLE),
    "mpirun --tag-output": (before("[1,0]<stdout>:", S), WHOLE),
    "pdsh": (before("node017: ", S), WHOLE),
    "kubectl logs --timestamps": (before("2026-02-16T10:00:00.000000000Z ", S), WHOLE),
    "escapes": (H.replace("\tGPU0", "\t\x1b[4mGPU0", 1).replace(" ID", " ID\x1b(B\x1b[m", 1), WHOLE),
    "escapes of cat -v": (H.replace("\tGPU0", "\t^[[4mGPU0", 1).replace(" ID", " ID^[[0m", 1), WHOLE),
    "escapes half lost": (H.replace("\tGPU0", "\t[4mGPU0", 1).replace(" ID", " ID[0m", 1), WHOLE),
    "UTF-16": (H.replace("\n", "\r\n").encode("utf-16"), WHOLE),
    "UTF-16 without a mark": (H.encode("utf-16-le"), WHOLE),
    "spaces that do not break": (S.replace("  ", "\xa0 "), WHOLE),
    "table of a page": (
        "|  |GPU0|GPU1|CPU Affinity|NUMA Affinity|\n|---|---|---|---|---|\n|GPU0|X|NV4|0-31|0|\n|GPU1|NV4|X|0-31|0|\n",
        Seen(2, 0, ("GPU0", "GPU1", "NV4"), (0, 0)),
    ),
    "fence of a page": ("I get:\n\n```\n$ nvidia-smi topo -m\n" + S + "```\nThanks!\n", WHOLE),
    "lines filled anew": (
        " GPU0 GPU1 CPU Affinity\nNUMA Affinity GPU NUMA ID\nGPU0 X NODE 0-19 0 N/A GPU1 NODE\nX 0-19 1 N/A\n",
        Seen(2, 0, ("GPU0", "GPU1", "NODE"), (0, 1)),
    ),
    "wrapped at 80": (wrapped(80), WHOLE),
    "wrapped at 100": (wrapped(100), WHOLE),
    "twice": (S + S, WHOLE),
    "peers behind it": (H + "\n$ nvidia-smi topo -p2p r\n" + PEERS, WHOLE),
    "peers before it": ("$ nvidia-smi topo -p2p r\n" + PEERS + "\n$ nvidia-smi topo -m\n" + FOUR, PAIR),
    "cut in the legend": (H[: H.index("NIC Legend") + 20], Seen(8, 8, ("GPU0", "NIC3", "NODE"))),
    "NICs by name": (matrix(8, nv(18), 8, name="mlx5_{}"), Seen(8, 8, ("GPU1", "mlx5_1", "PIX"))),
    "NICs of Broadcom": (matrix(4, halves, 2, name="bnxt_re{}"), Seen(4, 2, ("GPU1", "bnxt_re1", "PIX"), (0, 0, 1, 1))),
    "NICs of EFA": (
        matrix(8, nv(18), 4, name="rdmap{}s0"),
        Seen(8, 4, ("GPU3", "rdmap3s0", "PIX"), (0,) * 4 + (1,) * 4),
    ),
    "Grace": (
        matrix(2, nv(18), places=lambda i: f"{72 * i}-{72 * i + 71}\t{i},{2 + i}-9\t\t{2 + 8 * i}"),
        Seen(2, 0, ("GPU0", "GPU1", "NV18"), (0, 1)),
    ),
    "hidden NUMA nodes": (matrix(2, nv(18), places=lambda _: "0-95\t0-1\t\tN/A"), Seen(2, numa=(None, None))),
    "NUMA alone": ("     GPU0 GPU1 NUMA\nGPU0 X    SYS  0\nGPU1 SYS  X    1\n", Seen(2, numa=(0, 1))),
    "drivers before 387": (
        "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSOC\t1-1,3-3\nGPU1\tSOC\t X \t1-1\n",
        Seen(2, 0, ("GPU0", "GPU1", "SYS")),
    ),
}

REFUSED: Mapping[str, tuple[str | bytes, str]] = {
    "rows left out": ("GPU0 GPU1 GPU2\nGPU0 X NV18 NV18\nGPU1 NV18 X NV18\n...\n", "no row for GPU2"),
    "cut in a row": (H[: H.index("GPU6\t", 80) + 30], "GPU6"),
    "cut at the right": ("\n".join(line[:60] for line in S.split("\n")), "cut off at the right"),
    "diagonal not X": (damaged(3, "\t X ", "\tNV18"), "f:4: GPU2 reaches itself as NV18"),
    "another X": (damaged(1, "NV18", "X"), "GPU0 reaches GPU1 as X"),
    "two ways": (damaged(3, "NV18", "SYS"), "GPU0 reaches GPU2 as NV18, and GPU2 reaches GPU0 as SYS"),
    "peers alone": (PEERS, "`nvidia-smi topo -p2p`"),
    "rocm-smi": ("=== ROCm System Management Interface ===\n" + ROCM, "GPUs of AMD"),
    "rocm-smi without its title": (ROCM, "GPUs of AMD"),
    "amd-smi": ("ACCESS TABLE:\n   0000:05:00.0\n0000:05:00.0 ENABLED\n", "GPUs of AMD"),
    "another vendor": ("     GPU0 GPU1 CPU Affinity\nGPU0 X MX 0-31\nGPU1 MX X 0-31\n", "'MX'"),
    "no device": ("No devices were found\n", "nvidia-smi found none"),
    "no driver": ("Failed to initialize NVML: Driver/library version mismatch\n", "Driver/library version mismatch"),
    "no command": ("bash: nvidia-smi: command not found\n", "nvidia-smi was not found"),
    "query as text": ("=====NVSMI LOG=====\n\nAttached GPUs : 8\nGPU 00000000:1B:00.0\n", "nvidia-smi -q -x"),
}
