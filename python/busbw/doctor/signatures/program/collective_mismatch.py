"""Ranks call different collectives."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

_CALL = (
    r"CollectiveFingerPrint\((?:SequenceNumber=(?P<{0}seq>\d{{1,12}}),? ?)?OpType=(?P<{0}op>\w{{1,40}})"
    r"(?:, TensorShape=\[(?P<{0}shape>[\d, ]{{0,80}})\](?:, TensorDtypes=(?P<{0}type>\w{{1,24}})\b)?)?"
)
_SHAPES = "ranks call one collective with tensors of different shape"
_TYPES = "ranks call one collective with tensors of different types"
_TITLE = "ranks call different collectives, or in another order"


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """Which ranks call what, or never came, where PyTorch tells it."""
    both = next((each for each in groups if "one_op" in each and "other_op" in each), None)
    if both is not None:
        return _counted_apart(both) or _differ(both)
    odd = next((each for each in groups if "odd_op" in each), None)
    if odd is not None:
        shape = f" of shape [{odd['odd_shape']}]" if odd.get("odd_shape") else ""
        return f"{_TITLE}: rank {odd['odd']} calls {odd['odd_op']}{shape}"
    missing = next((each["missing"] for each in groups if "missing" in each), "")
    if missing:
        which = next((f" {each['call']}" for each in groups if "call" in each), "")
        return f"rank {missing} never came to a collective{which} in which all others wait"
    joined = next((each for each in groups if "joined" in each), None)
    if joined is not None:
        number = f" number {joined['number']}" if "number" in joined else ""
        return f"rank {joined['joined']} joined collective{number} and never finished it"
    return _TITLE


def _differ(both: Mapping[str, str]) -> str:
    """In what the calls of two ranks differ."""
    number = both.get("one_seq") or both.get("other_seq")
    which = f"{both['one_op']}, number {number}" if number else both["one_op"]
    for said, key, front, back in ((_SHAPES, "shape", "[", "]"), (_TYPES, "type", "", "")):
        one, other = (both.get(f"{side}_{key}", "") for side in ("one", "other"))
        if both["one_op"] == both["other_op"] and one and other and one != other:
            return (
                f"{said} ({which}): rank {both['one']} has {front}{one}{back}, rank {both['other']} has "
                f"{front}{other}{back}"
            )
    calls = [
        f"rank {both[side]} calls {both[f'{side}_op']}" + (f" of shape [{shape}]" if shape else "")
        for side in ("one", "other")
        for shape in (both.get(f"{side}_shape", ""),)
    ]
    return f"ranks call different collectives{f' as number {number}' if number else ''}: {', '.join(calls)}"


def _counted_apart(both: Mapping[str, str]) -> str:
    """That both ranks make a call under different numbers: one of them made more calls before it; "" otherwise."""
    one, other = both.get("one_seq", ""), both.get("other_seq", "")
    if not one or not other or int(one) == int(other):
        return ""
    return (
        f"ranks are out of step: rank {both['one']} calls {both['one_op']} as its number {one}, rank {both['other']} "
        f"calls {both['other_op']} as its number {other}"
    )


SIGNATURE = Signature(
    name="collective-mismatch",
    stage=Stage.PROGRAM,
    title=_TITLE,
    patterns=(
        rf"Detected mismatch between collectives on ranks\. Rank (?P<one>\d{{1,7}}) is running collective: "
        rf"{_CALL.format('one_')}.{{0,600}}?but Rank (?P<other>\d{{1,7}}) is running collective: "
        rf"{_CALL.format('other_')}",
        # PyTorch 1.10 and older name the rank alone that differs from what most call.
        rf"Rank (?P<odd>\d{{1,7}}) is running inconsistent collective: {_CALL.format('odd_')}",
        # What torchfrtrace prints of a flight recorder's dumps.
        r"^missing ranks: \{(?P<missing>\d[\d, ]{0,200})\}",
        r"^collective: (?P<call>\w{1,20}:\w{1,60})$",
        r"DDP expects same model across all ranks",
        r"op\.preamble\.length <= op\.nbytes",
        r"Expected to have finished reduction in the prior iteration",
        r"Expected to mark a variable ready only once",
        r"submitted to be reduced, gathered or broadcasted by subset of ranks",
        r"Stalled ranks",
        r"\bHorovod\w+ \[missing ranks: \d",
        r"Mismatched \w{3,20} (?:tensor )?(?:shapes|operations|types)\b",
        r"Mismatched (?:operations|data types|reduction operation|prescale|\w{3,20} (?:root ranks|CPU/GPU device))",
        r"Not all ranks joining collective|Collective sequence number: \d+ has errors",
        r"different collective operation counts",
        r"is joining (?:a )?group with size \d{1,6}, but that group has size \d",  # TensorFlow
        r"Detected mismatch between collectives",
        r"caused by a collective mismatch",
        r"(?:collective|shape|dtype|order).{0,30}mismatch.{0,60}rank",
        r"Mismatched? collective",
        r"ranks? .{0,60}(?:is|are) running collective",
        r"match_state\b.{0,60}(?:COLLECTIVE_TYPE_MISMATCH|SIZE_OR_SYNTAX_MISMATCH"
        r"|COLLECTIVE_DTYPE_MISMATCH|COLLECTIVE_STATE_MISMATCH)",
        r"COLLECTIVE_TYPE_MISMATCH",
        r"SIZE_OR_SYNTAX_MISMATCH",
        r"Rank (?P<joined>\d{1,7}) joined but didn't finish collective(?: (?P<number>\d{1,12}))?",
        r"joined but didn't finish collective",
        r"didn't join collective",
        r"appears not to match sizes of",
    ),
    explains=("watchdog-timeout",),
    confirm=("TORCH_DISTRIBUTED_DEBUG=DETAIL, or NCCL_DEBUG_SUBSYS=COLL on all ranks and compare opCount and names"),
    cure=(
        "let all ranks take the same branches: no collective inside `if rank == 0`, the same number of batches "
        "(drop_last, join), the same order of groups. The ranks named are those to look at"
    ),
    source="torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp, TraceUtils.h",
    tell=tell,
)
