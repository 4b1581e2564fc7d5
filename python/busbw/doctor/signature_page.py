"""The page of the reference that lists every signature; tools/doctor_page writes it."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.signature import Signature, Stage
from busbw.doctor.signatures import SIGNATURES

_HEAD = """# What the doctor knows of logs

`busbw doctor job.log` looks for these signatures in any text: output with NCCL_DEBUG=INFO, PyTorch's traceback,
`dmesg`, a launcher's last lines, a benchmark's table. Prefixes of launchers, colours and other output between are no
hindrance.
Each finding shows the lines that it was drawn from, how to confirm the cause, and its cure.

Causes stand before their effects, in the order of the parts below. A crash, a failure without its reason and an
effect are notes ("follows from ...") where a cause was found too; alone they are findings.

Made by `python3 tools/doctor_page` from python/busbw/doctor/signatures.
"""
_PARTS = {
    Stage.HARDWARE: "Hardware", Stage.DRIVER: "Driver and GPU runtime", Stage.SYSTEM: "Operating system and container",
    Stage.SETTING: "Settings and plugins", Stage.LAUNCH: "Launch and rendezvous", Stage.NETWORK: "Network",
    Stage.PROGRAM: "The program", Stage.CRASH: "Crashes", Stage.FAILURE: "Failures without a reason",
    Stage.EFFECT: "Effects",
}  # fmt: skip


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_parts()])


def _parts() -> Iterator[str]:
    for stage, title in _PARTS.items():
        yield f"## {title}\n"
        for each in SIGNATURES.values():
            if each.stage is stage:
                yield from _entry(each)


def _entry(each: Signature) -> Iterator[str]:
    yield f"### {each.name}\n"
    title = each.title.replace("{", "<").replace("}", ">")
    yield f"{title[0].upper()}{title[1:]}.\n"
    yield f"- severity: {each.severity.value}; cost: {each.cost}"
    yield f"- confirm: {each.confirm}"
    yield f"- cure: {each.cure}"
    yield f"- known from: {each.source}; {each.versions}\n"
