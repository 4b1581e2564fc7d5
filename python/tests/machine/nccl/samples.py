"""Topology and graph files of machines that these tests make up."""

from __future__ import annotations

from collections.abc import Sequence


def topology(gpus: int = 2, links: int = 12, sm: int = 80, *, bus: str = "{:04x}:00:00.0") -> bytes:
    """GPUs one per NUMA node, all joined through a switch."""
    cpus = "".join(
        f'<cpu numaid="{i}" affinity="{0xFF << (8 * i):x}" arch="x86_64" vendor="AuthenticAMD">'
        f'<pci busid="{bus.format(i + 1)}" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">'
        f'<gpu dev="{i}" sm="{sm}" rank="{i}" gdr="1">'
        f'<nvlink target="fffffff:ff:ff.0" count="{links}" tclass="0x068000"/></gpu></pci></cpu>\n'
        for i in range(gpus)
    )
    return f'<system version="1">\n{cpus}</system>'.encode()


def graph(
    rings: Sequence[Sequence[int]], speed: float = 20.0, kind: str = "NVL", *, declared: int | None = None, id: int = 0
) -> bytes:
    """A graph file with these ring channels."""
    channels = "".join(
        "<channel>" + "".join(f'<gpu dev="{gpu:#x}"/>' for gpu in ring) + "</channel>\n" for ring in rings
    )
    count = len(rings) if declared is None else declared
    return (
        f'<graphs version="1">\n<graph id="{id}" pattern="4" crossnic="0" nchannels="{count}" speedintra="{speed}" '
        f'speedinter="{speed}" latencyinter="0" typeintra="{kind}" typeinter="PIX" samechannels="1">\n'
        f"{channels}</graph></graphs>"
    ).encode()
