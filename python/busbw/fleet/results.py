"""The file of a fleet: a head that names nodes and pods, then one line of JSON for each result, round by round."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from busbw.base.errors import UserError
from busbw.base.secrets import hide, shortened
from busbw.fleet.fabric import Fabric
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options
from busbw.fleet.trial import INSIDE, KINDS, Outcome, Trial

MOST_BYTES = 512 << 20
MOST_LINE = 4 << 20
MOST_SAMPLES = 10_000
MOST_ROUNDS = 1000
MOST_GBPS = 1e100
_LONGEST_REASON = 4096
VERSION = 1
_CHANNEL = re.compile(r"(nvlink|(pcie|nic|rail|latency)\d{1,3})")


@dataclass
class Results:
    """What was measured, by round; the last round may be unfinished."""

    rounds: list[list[Outcome]] = field(default_factory=list)

    def knowledge(self) -> Knowledge:
        """Everything that these results say."""
        known = Knowledge()
        for outcomes in self.rounds:
            known.learn(outcomes)
        return known


def head_line(fabric: Fabric, options: Options) -> str:
    """The first line of a file."""
    head = {"busbw_fleet": VERSION, "nodes": fabric.nodes, "pods": dict(fabric.pod_of), "rails": fabric.rails,
            **({"above": dict(fabric.above)} if fabric.above else {})}  # fmt: skip
    return json.dumps({**head, "inside": options.inside, "smallest_loss": options.smallest_loss,
                       "repeats": options.repeats, **({"later": options.later} if options.later else {})})  # fmt: skip


def result_line(number: int, outcome: Outcome) -> str:
    """One result of round `number`, which counts from 0."""
    trial = outcome.trial
    line: dict[str, Any] = {"round": number, "kind": trial.kind, "channel": trial.channel, "nodes": trial.nodes}
    if trial.control:
        line["control"] = True
    line["samples"] = [float(f"{sample:.6g}") for sample in outcome.samples]
    if outcome.reason:
        line["reason"] = outcome.reason
    return json.dumps(line)


def read(text: str, where: str) -> tuple[Fabric | None, Options | None, Results]:
    """Head, if there is one, and results. A last line that was cut off by a kill is left out."""
    fabric, options, results, nodes = None, None, Results(), frozenset[str]()
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{where}:{number}"
        try:
            found = _object(line, place)
        except UserError:
            if number == len(lines) and number > 1:
                break
            raise
        if "busbw_fleet" in found:
            if fabric is not None or results.rounds:
                raise UserError(f"{place}: the head of a fleet stands here a second time; give each fleet its own file")
            fabric, options = _head(found, place)
            nodes = frozenset(fabric.nodes)
        else:
            _add(results, found, nodes, place)
            channel = results.rounds[-1][-1].trial.channel
            if fabric and channel.startswith(("rail", "latency")) and int(channel.lstrip("railtency")) >= fabric.rails:
                raise UserError(f"{place}: {channel} is beyond the {fabric.rails} rails of the head; they count from 0")
    return fabric, options, results


def check(results: Results, fabric: Fabric, where: str) -> None:
    """Refuse results of nodes that the plan does not have, where the file itself did not name them."""
    nodes = frozenset(fabric.nodes)
    for outcome in (outcome for round_ in results.rounds for outcome in round_):
        for node in outcome.trial.nodes:
            if node not in nodes:
                raise UserError(_stranger(node, len(nodes), where))


def _stranger(node: str, count: int, place: str) -> str:
    return f"{place}: {node} is not among the {count} nodes of the plan; are these another fleet's results?"


def _object(line: str, place: str) -> dict[str, Any]:
    if len(line) > MOST_LINE:
        raise UserError(f"{place}: the line is longer than {MOST_LINE >> 20} MiB; it is no result")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise UserError(f"{place}: '{shortened(line, 40)}' is no JSON, or a line that was cut off; take this line out, "
                        "and write one result a line") from None  # fmt: skip
    if not isinstance(found, dict):
        raise UserError(f'{place}: a result is an object, such as {{"round": 0, "kind": "within", ...}}')
    return found


def _head(found: dict[str, Any], place: str) -> tuple[Fabric, Options]:
    if found["busbw_fleet"] != VERSION:
        raise UserError(f"{place}: this file has version {str(found['busbw_fleet'])[:40]}, and {VERSION} is read here; "
                        "use the busbw that wrote it")  # fmt: skip
    nodes, pods, inside = found.get("nodes"), found.get("pods", {}), found.get("inside", ["nvlink"])
    if not _texts(nodes) or not isinstance(pods, dict) or not _texts(list(pods.values())) or not _texts(inside):
        raise UserError(f"{place}: the head needs `nodes`, a list of names, and `pods`, the pod of each")
    for channel in inside:
        _check_channel(channel, INSIDE, place)
    above = found.get("above", {})
    if not isinstance(above, dict) or not _texts(list(above.values())):
        raise UserError(f"{place}: `above` is the switch above the leaf of each pod")
    rails, loss, repeats = found.get("rails", 1), found.get("smallest_loss", 0.03), found.get("repeats", 16)
    later = found.get("later", 0.0)
    for name, value, low, high in (
        ("rails", rails, 1, 64),
        ("smallest_loss", loss, 0.001, 0.9),
        ("repeats", repeats, 1, 1000),
        ("later", later, 0, 10),
    ):
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise UserError(f"{place}: `{name}` lies between {low} and {high}, but is {str(value)[:40]}")
    options = Options(
        smallest_loss=float(loss),
        repeats=int(repeats),
        most_repeats=4 * int(repeats),
        inside=tuple(inside),
        later=float(later),
    )
    return Fabric(tuple(nodes), pods, int(rails), above), options


def _texts(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _check_channel(channel: Any, kind: str, place: str) -> str:
    if (
        not isinstance(channel, str)
        or not _CHANNEL.fullmatch(channel)
        or (kind == INSIDE) == channel.startswith(("rail", "latency"))
    ):
        raise UserError(f"{place}: '{str(channel)[:40]}' is no channel of kind {kind}: inside a node these are "
                        f"nvlink, pcie0.., nic0.., between nodes rail0.., latency0..")  # fmt: skip
    return channel


def check_trial(found: Mapping[str, Any], place: str) -> tuple[str, tuple[str, ...], str]:
    """Kind, nodes and channel of what somebody says is a trial; UserError where it is none."""
    kind, nodes = found.get("kind"), found.get("nodes")
    if not isinstance(kind, str) or kind not in KINDS:
        raise UserError(f"{place}: `kind` is one of {', '.join(KINDS)}, not {str(kind)[:40]!r}")
    channel = _check_channel(found.get("channel"), kind, place)
    if not _texts(nodes) or not nodes or (len(nodes) == 1) != (kind == INSIDE):
        raise UserError(f"{place}: `nodes` is a list of names: one inside a node, two or more between nodes")
    if len(set(nodes)) < len(nodes):
        twice = next(node for node in nodes if nodes.count(node) > 1)
        raise UserError(f"{place}: {twice} stands twice in one group; a group has each node once")
    return kind, tuple(nodes), channel


def _add(results: Results, found: dict[str, Any], known: frozenset[str], place: str) -> None:
    number = found.get("round")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < MOST_ROUNDS:
        raise UserError(f"{place}: `round` counts from 0 to {MOST_ROUNDS - 1}, but is {str(number)[:40]}")
    if number > len(results.rounds) or number < len(results.rounds) - 1:
        raise UserError(f"{place}: round {number} follows round {len(results.rounds) - 1}; results stand in order")
    kind, nodes, channel = check_trial(found, place)
    if known and (strangers := [node for node in nodes if node not in known]):
        raise UserError(_stranger(strangers[0][:80], len(known), place))
    samples, reason = _samples(found, place)
    if number == len(results.rounds):
        results.rounds.append([])
    trial = Trial(kind, nodes, channel, max(1, len(samples)), found.get("control") is True)
    results.rounds[number].append(Outcome(trial, samples, reason))


def _samples(found: dict[str, Any], place: str) -> tuple[tuple[float, ...], str]:
    samples, reason = found.get("samples", []), found.get("reason", "")
    if not isinstance(samples, list) or len(samples) > MOST_SAMPLES:
        raise UserError(f"{place}: `samples` is a list of up to {MOST_SAMPLES} bandwidths in GB/s")
    for sample in samples:
        if isinstance(sample, bool) or not isinstance(sample, int | float) or not 0 < sample < MOST_GBPS:
            raise UserError(
                f"{place}: {str(sample)[:40]} is no bandwidth in GB/s; a group that failed has no samples and a reason"
            )
    if not isinstance(reason, str):
        raise UserError(f"{place}: `reason` is a sentence")
    return tuple(float(sample) for sample in samples), shortened(hide(reason[:_LONGEST_REASON]), 500)


def unfinished(trials: Sequence[Trial], done: Sequence[Outcome]) -> Iterator[Trial]:
    """What is left of a round of which some results are there."""
    there = {outcome.trial.key for outcome in done}
    return (trial for trial in trials if trial.key not in there)
