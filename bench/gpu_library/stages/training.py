"""DDP steps and tensor-parallel layers of PyTorch with and without our library: equal bits on all ranks, and speed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from gpu_library.contest import last_words
from gpu_library.environment import plain, preloaded
from gpu_library.machine import REPOSITORY
from gpu_library.program import as_ranks, free_port
from gpu_library.session import Result, Session, in_turn

PROGRAM = REPOSITORY / "bench" / "gpu_library" / "programs" / "training.py"
WORKLOADS = ("ddp", "tensor_parallel", "tensor_parallel_graph")
SIDES = ("NCCL", "ours")


def parse(texts: Iterable[str]) -> list[dict[str, Any]]:
    """What each rank said of itself: one JSON object a rank, between whatever else was printed."""
    found = []
    for text in texts:
        for line in text.splitlines():
            if line.startswith('{"training"'):
                found.append(json.loads(line)["training"])
    return sorted(found, key=lambda each: each["rank"])


def equal_on_all_ranks(ranks: Sequence[Mapping[str, Any]]) -> bool:
    """Bit for bit: the loss of every step on inputs that all ranks share, and the parameters at the end."""
    return bool(ranks) and all(
        (each["shared_losses"], each["parameters"]) == (ranks[0]["shared_losses"], ranks[0]["parameters"])
        for each in ranks
    )


def step_ms(ranks: Sequence[Mapping[str, Any]]) -> float | None:
    """The slowest rank's median step in milliseconds."""
    return max((median(each["step_ms"]) for each in ranks), default=None)


def summarise(results: Sequence[Result]) -> list[Result]:
    """By workload: ranks equal on either side, and how many times as fast ours was, round by round."""
    found = []
    for workload in WORKLOADS:
        mine = [r for r in results if r["workload"] == workload]
        if not mine:
            continue
        ms = {side: [r["step_ms"] for r in mine if r["side"] == side and r["step_ms"]] for side in SIDES}
        both = ms["NCCL"] and ms["ours"]
        ours = [r for r in mine if r["side"] == "ours"]
        found.append({
            "workload": workload,
            "equal": all(r["equal"] for r in ours) if ours else None,
            "same_as_nccl": len({r["losses"] for r in mine if r["losses"]}) == 1 if both else None,
            "nccl_ms": median(ms["NCCL"]) if ms["NCCL"] else None,
            "ours_ms": median(ms["ours"]) if ms["ours"] else None,
            "speed": median(ms["NCCL"]) / median(ms["ours"]) if both else None,
            "rounds": len(ms["ours"]),
        })  # fmt: skip
    return found


def argv(session: Session, workload: str) -> tuple[str, ...]:
    backend, size = ("gloo", "tiny") if session.machine.host else ("nccl", "large")
    return (session.machine.python, str(PROGRAM), workload, "--backend", backend, "--size", size)


def stage(session: Session) -> list[Result]:
    graphs = not session.machine.host
    plans = [(w, side) for w in WORKLOADS for side in SIDES if graphs or not w.endswith("_graph")]
    results: list[Result] = []
    for number, position in in_turn(max(2, session.wanted.rounds), len(plans)):
        workload, side = plans[position]
        label = f"{workload} with {side}"
        if session.fits(label, 15):
            results.append(_one(session, workload, side, f"{label}, round {number}"))
    return results


def _one(session: Session, workload: str, side: str, label: str) -> Result:
    machine = session.machine
    changes = plain(machine.nccl, session.base)
    if side == "ours" and not machine.host:
        changes = preloaded(machine.ours, machine.nccl, session.base)
    environment = session.environment(changes)
    ended = session.run_ranks(label, as_ranks(argv(session, workload), environment, machine.gpus, free_port()))
    ranks = parse(each.text for each in ended)
    worst = next((each for each in ended if each.code != 0), ended[0])
    return {
        "workload": workload, "side": side, "exit": worst.code, "ranks": len(ranks),
        "equal": len(ranks) == machine.gpus and equal_on_all_ranks(ranks), "step_ms": step_ms(ranks),
        "losses": " ".join(ranks[0]["shared_losses"]) if ranks else "",
        "reason": "" if worst.code == 0 else last_words(worst.text),
    }  # fmt: skip
