"""The file of a step: layers with operations, bytes and collectives, in TOML or JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from busbw.base.bounds import bounded
from busbw.base.errors import UserError
from busbw.base.files import read_text
from busbw.base.quantities import parse_bytes
from busbw.base.toml import parse_toml
from busbw.expect.schedule import Slowdown
from busbw.expect.spread import Spread, kinds_of
from busbw.expect.step import BUCKET, FIRST_BUCKET, KINDS, SENDS, Layer, Step

MAX_BYTES = 4 << 20
MOST_LAYERS = 10_000
_STEP = {"parallel", "flops_per_s", "bytes_per_s", "bucket", "first_bucket", "microbatches", "stages", "optimizer_us",
         "work_slowdown", "call_slowdown", "wait_slowdown", "wait_us", "sends", "tp", "pp", "ep", "dp"}  # fmt: skip
_LAYER = {"name", "count", "forward_flops", "backward_flops", "forward_bytes", "backward_bytes", "forward_us",
          "backward_us", "parameter_bytes", "activation_bytes", "collectives"}  # fmt: skip
_CALLED = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv"}


def read_step(path: Path, kind: str | None = None) -> tuple[Step, Slowdown]:
    """The step of a file; `kind` instead of what it says. UserError names the key that is none."""
    text = read_text(path, MAX_BYTES, what="the step", hint="a step has some hundred layers")
    if path.suffix == ".json":
        try:
            with bounded(str(path), len(text)):
                document = json.loads(text)
        except (ValueError, RecursionError) as problem:
            raise UserError(f"{path} is no JSON: {problem}") from None
    else:
        document = parse_toml(text, str(path))
    try:
        return _step(document, kind)
    except (ValueError, TypeError, OverflowError) as problem:
        raise UserError(f"{path}: {problem}; docs/reference/predict.md describes the file") from None


def _step(document: Any, kind: str | None) -> tuple[Step, Slowdown]:
    if not isinstance(document, dict) or set(document) - {"step", "layer"}:
        raise ValueError("it holds a table [step] and tables [[layer]], and nothing else")
    said = _table(document.get("step", {}), "step", _STEP)
    rows = document.get("layer")
    if not isinstance(rows, list) or not rows:
        raise ValueError("it has no [[layer]]")
    rates = _number(said, "flops_per_s", 0.0, "step"), _number(said, "bytes_per_s", 0.0, "step")
    layers: list[Layer] = []
    for number, row in enumerate(rows, start=1):
        where = f"layer {number}"
        table = _table(row, where, _LAYER)
        count = _whole(table, "count", 1, where, least=1)
        if len(layers) + count > MOST_LAYERS:
            raise ValueError(f"{where}: more than {MOST_LAYERS} layers")
        layers += [_layer(table, where, rates)] * count
    chosen = kind or said.get("parallel", "ddp")
    spread = None
    if isinstance(chosen, list):
        spread = _spread(said)
        chosen = "+".join(spread.kinds)
    elif chosen not in KINDS:
        raise ValueError(f"parallel is one of {', '.join(KINDS)}, not {chosen!r}")
    step = Step(
        chosen, tuple(layers), _bytes(said, "bucket", BUCKET, "step"),
        _bytes(said, "first_bucket", FIRST_BUCKET, "step"),
        _whole(said, "microbatches", 1, "step", least=1), _whole(said, "stages", 1, "step", least=1),
        _number(said, "optimizer_us", 0.0, "step"), spread,
        _wait_us(said, chosen), _sends(said, chosen),
    )  # fmt: skip
    if step.bucket_bytes < 1 << 10 or step.first_bucket_bytes < 1 << 10:
        raise ValueError("a bucket holds at least 1 KiB")
    *slow, waits = (_number(said, name, 1.0, "step") for name in ("work_slowdown", "call_slowdown", "wait_slowdown"))
    if min(*slow, waits) < 1:
        raise ValueError("a slowdown is at least 1: the time beside the other over the time alone")
    _check_said(said, rows, chosen, named=kind is not None)
    return _waiting(step, waits), Slowdown(*slow)


def _wait_us(said: Mapping[str, Any], kinds: str) -> float:
    waits = _number(said, "wait_us", 0.0, "step")
    if waits and kinds not in {"tp", "ep"}:
        raise ValueError(
            f"wait_us means nothing under {kinds}; it belongs to tp or ep alone, whose calls work waits for"
        )
    return waits


def _sends(said: Mapping[str, Any], kinds: str) -> str:
    sends = said.get("sends", "waited")
    if sends not in SENDS:
        raise ValueError(f"sends is {', '.join(SENDS[:-1])} or {SENDS[-1]}, not {sends!r}")
    if sends != "waited" and kinds != "pp":
        raise ValueError(f"sends = '{sends}' means nothing under {kinds}; it belongs to pp alone")
    return str(sends)


def _waiting(step: Step, waits: float) -> Step:
    """With work that takes so much longer where calls wait for the slowest rank after each half of a layer."""
    if waits > 1 and not {"tp", "ep"} & set(step.kind.split("+")):
        raise ValueError(f"wait_slowdown means nothing under {step.kind}; it belongs to tp and ep, whose calls work "
                         "waits for")  # fmt: skip
    longer = [replace(each, forward_us=each.forward_us * waits, backward_us=each.backward_us * waits)
              for each in step.layers]  # fmt: skip
    return replace(step, layers=tuple(longer))


_NEEDED = {"ddp": "parameter_bytes", "fsdp": "parameter_bytes", "tp": "activation_bytes", "ep": "activation_bytes",
           "pp": "activation_bytes"}  # fmt: skip


def _check_said(said: Mapping[str, Any], rows: list[Any], kinds: str, *, named: bool) -> None:
    """ValueError where calls would be of no bytes because nobody said any, and for keys of another kind."""
    # A file of work alone, which names no kind, is a step that calls nothing.
    for kind in kinds.split("+") if named or "parallel" in said else ():
        key = _NEEDED[kind]
        if not any(key in row or "collectives" in row for row in rows) and (kind != "pp" or said.get("stages", 1) != 1):
            raise ValueError(f"no layer says {key}, which is what {kind} sends; say 0 where it sends nothing")
    alone = [key for key in ("microbatches", "stages") if key in said and "+" not in kinds and kinds != "pp"]
    if alone and not named:
        raise ValueError(f"{alone[0]} means nothing under {kinds}; it belongs to pp")


def _spread(said: Mapping[str, Any]) -> Spread:
    """Several kinds at once, and how many ranks each has."""
    kinds = kinds_of(said["parallel"])
    sizes = {}
    for group in ("tp", "pp", "ep"):
        sizes[group] = _whole(said, "stages" if group == "pp" and "pp" not in said else group, 1, "step", least=1)
        if (sizes[group] > 1) != (group in kinds):
            raise ValueError(
                f"step: parallel with {group} needs {group} = 2 or more, and {group} needs to stand in parallel"
            )
    dp = _whole(said, "dp", 1, "step", least=1) if "dp" in said else None
    return Spread(kinds, sizes["tp"], sizes["pp"], sizes["ep"], dp)


def _layer(table: Mapping[str, Any], where: str, rates: tuple[float, float]) -> Layer:
    forward = _work(table, "forward", where, rates)
    if forward is None:
        raise ValueError(f"{where} has neither forward_us nor forward_flops")
    backward = _work(table, "backward", where, rates)
    called = table.get("collectives", [])
    if not isinstance(called, list) or len(called) > 1000:
        raise ValueError(f"{where}: collectives is a list of tables")
    tensors: tuple[int, ...] = ()
    said = table.get("parameter_bytes", 0)
    if isinstance(said, list):
        if len(said) > 1000:
            raise ValueError(f"{where}: more than 1000 parameters")
        tensors = tuple(_bytes({"parameter_bytes": each}, "parameter_bytes", 0, where) for each in said)
    whole = sum(tensors) if isinstance(said, list) else _bytes(table, "parameter_bytes", 0, where)
    return Layer(
        str(table.get("name", where)), forward, 2 * forward if backward is None else backward,
        whole, _bytes(table, "activation_bytes", 0, where), tuple(_call(each, where) for each in called), tensors,
    )  # fmt: skip


def _work(table: Mapping[str, Any], when: str, where: str, rates: tuple[float, float]) -> float | None:
    """Microseconds: as they stand, or the longer of operations and memory traffic; None where neither is said."""
    if f"{when}_us" in table:
        return _number(table, f"{when}_us", 0.0, where)
    found = []
    for name, rate, key in ((f"{when}_flops", rates[0], "flops_per_s"), (f"{when}_bytes", rates[1], "bytes_per_s")):
        if name in table:
            if rate <= 0:
                raise ValueError(f"{where} has {name}, and [step] no {key}")
            found.append(_number(table, name, 0.0, where) / rate * 1e6)
    return max(found) if found else None


def _call(row: Any, where: str) -> tuple[bool, str, int]:
    table = _table(row, f"{where}, collectives", {"name", "bytes", "when"})
    if table.get("name") not in _CALLED:
        raise ValueError(f"{where}: {table.get('name')!r} is none of {', '.join(sorted(_CALLED))}")
    if table.get("when", "forward") not in {"forward", "backward"}:
        raise ValueError(f"{where}: when is forward or backward")
    return table.get("when") == "backward", str(table["name"]), _bytes(table, "bytes", 0, where)


def _table(value: Any, where: str, keys: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is no table")
    unknown = sorted(set(value) - keys)
    if unknown:
        raise ValueError(f"{where} has {unknown[0]!r}, which is none of {', '.join(sorted(keys))}")
    return value


def _number(table: Mapping[str, Any], key: str, default: float, where: str) -> float:
    value = table.get(key, default)
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not (0 <= value < 1e30 and math.isfinite(value))
    ):
        raise ValueError(f"{where}: {key} is a number from 0 to 1e30, not {value!r}")
    return float(value)


def _whole(table: Mapping[str, Any], key: str, default: int, where: str, *, least: int) -> int:
    value = table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 1_000_000:
        raise ValueError(f"{where}: {key} is a whole number from {least} to 1000000, not {value!r}")
    return value


def _bytes(table: Mapping[str, Any], key: str, default: int, where: str) -> int:
    value = table.get(key, default)
    try:
        size = parse_bytes(value) if isinstance(value, str) else int(_number(table, key, default, where))
    except ValueError as problem:
        raise ValueError(f"{where}: {key}: {problem}") from None
    if not 0 <= size <= 1 << 50:
        raise ValueError(f"{where}: {key} is a size of at most 1 PiB, not {value!r}")
    return size
