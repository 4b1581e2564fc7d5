"""What `ray status` shows: nodes, resources in use and in all, and the demands that wait for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

DEMAND = re.compile(
    r"^\s{0,8}(?P<bundles>\{[^\n]{4,900}?\}(?: \* \d{1,5})?)(?: \((?P<how>[A-Z_]{4,14})\))?: \d{1,6}\+ pending",
    re.MULTILINE,
)
_BUNDLE = re.compile(r"\{(?P<what>[^}\n]{2,200})\}(?: \* (?P<times>\d{1,5}))?")
_AMOUNT = re.compile(r"['\"](?P<name>GPU|CPU)['\"]: ?(?P<much>\d{1,6}(?:\.\d{1,6})?)")


_STATUS = re.compile(
    r"^\W{0,4}(?:Active|Healthy):[ \t]*\n(?P<active>(?:[ \t][^\n]{0,200}\n){0,200})(?:Idle:[ \t]*\n"
    r"(?P<idle>(?:[ \t][^\n]{0,200}\n){0,200}))?(?:Pending:[ \t]*\n(?P<pending>(?:[ \t][^\n]{0,200}\n){0,50}))?"
    r"(?P<rest>(?:[^\n]{0,300}\n){0,60}?)(?:Total )?Usage:[ \t]*\n(?P<usage>(?:[ \t][^\n]{0,200}(?:\n|$)){1,40})",
    re.MULTILINE,
)
"""Nodes and resources, as `ray status` lists them; releases of 2024 and later list idle nodes apart."""
_COUNT = re.compile(r"^[ \t]{1,8}(?P<nodes>\d{1,5}) \S", re.MULTILINE)
_USED = re.compile(
    r"^[ \t]{1,8}(?P<used>\d{1,7}(?:\.\d{1,6})?)/(?P<all>\d{1,7}(?:\.\d{1,6})?) (?P<name>GPU|CPU)\b", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class RayStatus:
    """GPUs in use and in all, processors that are free, nodes that are there, one to come, and where that stands."""

    used: float
    gpus: float
    free_cpus: float | None
    nodes: int
    pending: str
    at: int


def status_of(text: str) -> RayStatus | None:
    """The last status that the text shows."""
    found = max(_STATUS.finditer(text), key=lambda each: each.start(), default=None)
    if found is None:
        return None
    rows = {each["name"]: each for each in _USED.finditer(text, found.start("usage"), found.end())}
    nodes = sum(int(each["nodes"]) for each in _COUNT.finditer(f"{found['active']}{found['idle'] or ''}"))
    pending = next((each.strip() for each in (found["pending"] or "").splitlines() if "(no " not in each), "")
    gpu, cpu = rows.get("GPU"), rows.get("CPU")
    return RayStatus(
        float(gpu["used"]) if gpu else 0.0,
        float(gpu["all"]) if gpu else 0.0,
        float(cpu["all"]) - float(cpu["used"]) if cpu else None,
        nodes,
        pending,
        gpu.start("used") if gpu else found.start("usage"),
    )


def asked_gpus(text: str) -> float:
    """The GPUs that the first demand of `ray status` asks for."""
    found = DEMAND.search(text)
    return sum(each[0] for each in bundles_of(found["bundles"])) if found else 0.0


def bundles_of(said: str) -> Iterator[tuple[float, float, float]]:
    """GPUs and processors of each kind of bundle, and the GPUs of one of them."""
    for bundle in _BUNDLE.finditer(said):
        much = {each["name"]: float(each["much"]) for each in _AMOUNT.finditer(bundle["what"])}
        times = int(bundle["times"] or 1)
        yield much.get("GPU", 0.0) * times, much.get("CPU", 0.0) * times, much.get("GPU", 0.0)
