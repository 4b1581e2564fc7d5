"""Clues of a topology file that is set and cannot be opened: why, what NCCL makes of the machine without it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_FAILED = re.compile(r"Could not open XML topology file (?P<path>\S{1,200}) : (?P<why>[A-Z][a-z ]{4,60})")
_FAR = re.compile(r"GPU Direct RDMA [Dd]isabled for (?:GPU|HCA)[^\n]{0,60}\(distance \d{1,2} >=? \d{1,2}\)")
_POD = re.compile(r"\bkubectl\b|\bkube|MPIJob|-worker-\d|-launcher\b|\bpod\b|\bdocker\b|\benroot\b|\bpyxis\b")


def file_not_opened(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The topology file cannot be opened, and GPUs and NICs then seem too far apart for GPU Direct RDMA."""
    failed = next((each for seen in finding.evidence if (each := _FAILED.search(seen.fact))), None)
    far = next(((text, found) for text in texts if (found := _FAR.search(text.text))), None)
    if failed is None or (far is None and "denied" not in failed["why"]):
        return None
    path = named(failed["path"], 80)
    title = f"the topology file that is set may not be read here: {path}"
    if "denied" not in failed["why"]:
        title = f"the topology file that is set does not exist here: {path}"
    apart = ""
    if far is not None:
        title += ". Without it NCCL takes what the machine shows, where GPUs and NICs lie too far apart, and does "
        title += "without GPU Direct RDMA"
        apart = ". That GPUs and NICs lie apart, and channels over few NICs, follow from it"
    in_pod = any(_POD.search(text.text) for text in texts)
    give = (
        "put it into the image of all workers, or mount it there (hostPath, ConfigMap)" if in_pod else "copy it there"
    )
    if "denied" in failed["why"]:
        give = "make the file and its folders readable for the job's user, on every node and in every container"
    return Sharper(
        title,
        f"{give}, and look in each worker: ls -l {path}. The provider has the file for this size of machine (Azure: "
        f"azhpc-images). NCCL_TOPO_FILE must name its place{apart}",
        (far[0].evidence(far[1].start()),) if far else (),
    )
