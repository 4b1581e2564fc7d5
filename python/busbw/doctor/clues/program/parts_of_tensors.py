"""Errors of shapes and devices by which a program forgot that a tensor is one rank's part, or lies on one device."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_VIEW = re.compile(
    r"shape '\[(?P<shape>-?\d{1,9}(?:, ?-?\d{1,9}){1,9})\]' is invalid for input of size (?P<size>\d{1,15})\b"
)
_PARALLEL = re.compile(
    r"(?:\btp(?:[_ -]?(?:size|degree|world_size))?|\btensor[_ -](?:model[_ -])?parallel(?:[_ -](?:size|degree))?)"
    r"[ =:]{1,3}(?P<n>\d{1,4})\b",
    re.IGNORECASE,
)
_DEVICES = re.compile(
    r"incompatible devices for jitted computation\. Got argument (?P<one>[^\n]{1,120}?) of (?P<call>\S{1,120}) with "
    r"shape \S{1,120} and with device ids \[(?P<ids>[\d, ]{1,200})\][^\n]{0,80}? and argument (?P<two>[^\n]{1,120}?) "
    r"(?:of \S{1,120} )?with shape \S{1,120} and with device ids \[(?P<others>[\d, ]{1,200})\]"
)


def view_of_part(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A view asks for as many times the elements as ranks share the tensor."""
    for text in texts:
        found = _VIEW.search(text.text)
        if found is None:
            continue
        shape, size = [int(each) for each in found["shape"].split(",")], int(found["size"])
        asked = prod(shape)
        if min(shape) < 1 or size < 1 or asked % size or asked // size < 2:
            continue
        times = asked // size
        told = next((each for each in _PARALLEL.finditer(text.text) if int(each["n"]) == times), None)
        if told is None:
            continue
        return Sharper(
            f"a view counts the whole tensor, and the rank holds one of {times} parts of it (tensor parallelism of "
            f"{times}): {named(found[0], 100)}",
            f"divide the sharded size in that view by {times}: heads // tp_size (n_local_heads), or -1 in its place. A "
            "weight that is split by columns gives each rank a part of the heads. Length of samples and batches are "
            "not the cause",
            (text.evidence(found.start()), text.evidence(told.start())),
        )
    return None


def on_other_devices(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """JAX got one argument on fewer devices than another."""
    for text in texts:
        found = _DEVICES.search(text.text)
        if found is None:
            continue
        sides = ((found["ids"], found["one"]), (found["others"], found["two"]))
        (few, fewer), (many, _) = sorted(sides, key=lambda each: each[0].count(","))
        if few.count(",") == many.count(","):
            continue
        return Sharper(
            f"argument {named(fewer, 60)} of {named(found['call'], 60)} lies on device [{named(few, 40)}] alone, "
            f"and another one on [{named(many, 40)}]: values that were loaded or made on one device are not spread "
            "over the mesh",
            "jax.device_put(value, NamedSharding(mesh, PartitionSpec())) for all parameters and the optimizer's state, "
            "above all after a checkpoint was read: a restore gives them the device it was told, or the first one. Or "
            "restore with the shardings of the mesh (Orbax: the target's shardings)",
            (text.evidence(found.start()),),
        )
    return None
