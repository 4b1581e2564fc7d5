"""PyTorch's watchdog ended a collective that did not finish: which one, and which rank lags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

_WHO = (
    r"(?:\[rank(?P<who>\d+)\].{0,90}?)?"
    r"(?:\[PG (?:ID )?(?P<pg>\d+)[^\]]{0,80}?(?:\((?P<name>[\w ]{1,60})\) )?|\[)Rank (?P<rank>\d+)\]"
)
"""Who says it: its rank in the job, the process group and the rank in that."""
_WORK = (
    r"WorkNCCL\((?:SeqNum=(?P<seq>\d+), )?OpType=(?P<op>\w+)"
    r"(?:, NumelIn=(?P<in>\d{1,18}), NumelOut=(?P<out>\d{1,18}))?"
)


MOST_APART = 1000
"""Ranks of one process group are at most so many collectives apart: further are those of different groups."""
BOTH_WAIT = "each waits for the other"
"""Words of the title where all ranks that speak wait in the same half of a pair of calls."""
_PLACES = (("seq", "waits in"), ("done", "completed"), ("enq", "had enqueued"))


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """The collective and the ranks that are behind, from what each rank's watchdog said."""
    frames = [each["frame"] for each in groups if "frame" in each]
    if frames and not any("op" in each or "rank" in each for each in groups):
        return f"a stack shows a thread that waits in {frames[0]}: look for the rank that never came there"
    ops = dict.fromkeys(each["op"] for each in groups if "op" in each)
    seconds = max((int(each["ms"]) // 1000 for each in groups if "ms" in each), default=0)
    what = f"a collective ({', '.join(ops)})" if ops else "a collective"
    names = dict.fromkeys(each["name"] for each in groups if "name" in each)
    what += f" of process group {', '.join(list(names)[:3])}" if names else ""
    # A watchdog ends a collective that failed, too, and only a timeout tells for how long it ran.
    failed = "failed or " if not seconds and any("enq" in each for each in groups) else ""
    title = f"{what} {failed}did not finish in its time" + (f" of {seconds} s" if seconds else "")
    lagging = _peers(groups) or behind(groups)
    if lagging:
        return f"{title}: {lagging}"
    return title + ": a rank did not join it, or the network stands still"


def _peers(groups: Sequence[Mapping[str, str]]) -> str:
    """That all ranks that speak wait in RECV, or all in SEND: so peers block each other. "" where it is not so."""
    halves: dict[int, set[str]] = {}
    for each in groups:
        if "op" in each and "rank" in each:
            halves.setdefault(_global(each), set()).add(each["op"].upper())
    called = set().union(*halves.values())
    if len(halves) < 2 or called not in ({"RECV"}, {"SEND"}) or any("lag" in each for each in groups):
        return ""
    ranks = ", ".join(map(str, sorted(halves)[:8])) + (" ..." if len(halves) > 8 else "")
    half, other = ("SEND", "receives") if called == {"SEND"} else ("RECV", "sends")
    return f"rank {ranks} wait in {half}, and none of them {other}: {BOTH_WAIT}, if no further rank should have done so"


def behind(groups: Sequence[Mapping[str, str]]) -> str:
    """Which ranks are behind the others, or stand alone; "" where nothing tells."""
    named = [each["lag"] for each in groups if "lag" in each]
    if named:
        return f"rank {', '.join(dict.fromkeys(named))} lags by PyTorch's own account"
    for mine in _of_one_group(groups):
        for key, word in _PLACES:
            places = {_global(each): int(each[key]) for each in mine if key in each and "rank" in each}
            low, high = min(places.values(), default=0), max(places.values(), default=0)
            if low < high <= low + MOST_APART:
                ranks = [rank for rank, place in places.items() if place == low]
                return (
                    f"rank {', '.join(map(str, sorted(ranks)[:8]))} lags: it {word} collective number {low}, "
                    f"others number {high}"
                )
    said = sorted({_global(each) for each in groups if "rank" in each})
    numbers = {each["seq"] for each in groups if "seq" in each}
    if not numbers:  # before PyTorch 1.13 nobody counted
        said = sorted({_global(each) for each in groups if "rank" in each and "op" in each})
    if not said or len(numbers) > 1:
        return ""
    ranks_text = ", ".join(map(str, said[:8])) + (" ..." if len(said) > 8 else "")
    where = f" in number {next(iter(numbers))}" if numbers else ""
    return f"rank {ranks_text} waited{where}{_others(groups, said)}"


def _others(groups: Sequence[Mapping[str, str]], said: Sequence[int]) -> str:
    """What is known of the ranks that say nothing, where the sizes of a gather tell how many ranks there are."""
    size = _size(groups)
    if size < len(said):
        return "; look at the ranks that say nothing"
    if size == len(said):
        return (
            f": all {size} ranks of the group, so that none is missing: a link or a GPU stands still, or ranks call "
            "collectives of several groups in another order"
        )
    alike = all(each.get("who", each.get("rank")) == each.get("rank") for each in groups)
    silent = sorted(set(range(size)) - set(said))
    if alike and len(silent) == 1:
        return f", and rank {silent[0]}, the last of these {size}, does not say so: look there first"
    return (
        f"; {size} ranks belong to it, and these lines do not tell who holds it: one of those that say nothing, or a "
        "link"
    )


def _size(groups: Sequence[Mapping[str, str]]) -> int:
    """How many ranks gather or scatter, by the sizes of what goes in and comes out; 0 where that is not known."""
    sizes = set()
    for each in groups:
        low, high = sorted((int(each.get("in", "0")), int(each.get("out", "0"))))
        if low and ("GATHER" in each.get("op", "") or "SCATTER" in each.get("op", "")):
            sizes.add(high // low if high % low == 0 else 0)
    # Ranks that call different things under one number are not of one gather.
    alike = len({each["op"] for each in groups if "op" in each}) == 1
    return sizes.pop() if alike and len(sizes) == 1 else 0


def _global(each: Mapping[str, str]) -> int:
    """The rank in the job; within a process group ranks are counted anew."""
    return int(each.get("who", each.get("rank", "0")))


def _of_one_group(groups: Sequence[Mapping[str, str]]) -> list[list[Mapping[str, str]]]:
    """What was said of one process group each: numbers of collectives are compared within one alone.

    Lines that name no group count where nobody has another number in his group than in the job.
    """
    parts: dict[str, list[Mapping[str, str]]] = {}
    alike = all(each.get("who", each.get("rank")) == each.get("rank") for each in groups)
    for each in groups:
        if "pg" in each or alike:
            parts.setdefault(each.get("pg", ""), []).append(each)
    return list(parts.values())


SIGNATURE = Signature(
    name="watchdog-timeout",
    stage=Stage.EFFECT,
    title="a collective did not finish in its time: a rank did not join it, or the network stands still",
    patterns=(
        r"Exception raised from (?:checkTimeout|ncclCommWatchdog)\b|WorkNCCL::checkTimeout\(",
        # Stacks of programs that stand still, as gdb, pstack and py-spy print them.
        r"^#\d{1,3} .{0,40}\b(?P<frame>nccl(?:CommInit|Socket|Group|AllReduce|AllGather|Broadcast|CommDestroy)\w*"
        r"|bootstrap(?:Init|AllGather|Barrier|Split|Recv|Send)\w*|c10d::\w+::(?:wait|barrier|synchronize)\w*)",
        r"^\s+(?P<frame>barrier|all_?reduce|all_gather\w*|reduce_scatter\w*|broadcast\w*|init_process_group|new_group)"
        r" \(.{0,200}(?:distributed_c10d|c10d_logger|comm/torch|torch_dist)\w*\.py:\d",
        r"failure detected by watchdog at work",
        r"Stack trace of the (?:failed|timedout) collective",
        r"\bwork \d+ may hang\b",
        r"\bHang detected on rank \d",
        r"\bhung communicators?\b|\bcollective is (?:deadlocked|hanging|hung|stuck)",
        # Lines of other programs that were printed in the midst of it take nothing away.
        r"WorkNCCL\(SeqNum.{0,400}before timing out",
        r"Did not get subsequent heartbeat|[Tt]erminating workers due to (?:a )?hang",
        r"\b(?:rank|training|job|process)s? (?:\d+ )?(?:seems?|appears?|is|are|has) (?:to be )?(?:hung|stuck|hanging)",
        r"\b(?:NCCL|RCCL|HCCL) (?:task timeout|task timed out|collective timeout|operation timeout)",
        r"expected \d+ threads to join the rendezvous",
        r"Termination timeout for",
        r"This thread has been waiting for .{0,400}may be stuck|Termination timeout for .{0,300} exceeded",
        r"waiting for .?acquire clique.{0,160}may be stuck",
        r"waiting for.{0,120}threads joined the rendezvous",
        r"reached monitoredBarrier, but received errors while waiting for send/recv from rank \d",
        r"\bRanks? (?P<lag>\d[\d, ]{0,200}) failed to (?:pass|reach) monitoredBarrier",
        r"(?:failed to (?:call|pass)|failed to reach) monitoredBarrier",
        r"stuck.{0,60}(?:collective|all_?reduce|barrier).{0,60}\d+ ?s",
        r"Scheduler hit an exception.{0,40}timeout",
        r"RPC call to \w+ timed out",
        r"\bWatchdog timeout\b(?! (?:is|was|of|set)\b|\W{1,3}\d)|watchdog_last_forward|self\.watchdog_timeout",
        r"detokenizer.{0,40}(?:no response|timed? ?out)|couldn.t get a response from (?:the )?detokenizer",
        r"(?:engine|scheduler|worker).{0,40}(?:health check (?:failed|timed out)|heartbeat (?:timed out|timeout))",
        r"Some NCCL operations have failed or timed out",
        rf"{_WHO}.{{0,80}}Watchdog caught collective operation timeout: {_WORK}.*?ran for (?P<ms>\d+)",
        rf"{_WHO}.{{0,120}}Timeout at NCCL work: (?P<seq>\d+), last enqueued NCCL work: (?P<enq>\d+), "
        r"last completed NCCL work: (?P<done>\d+)",
        rf"{_WHO}.{{0,160}}watchdog.{{0,40}}at work: (?P<seq>\d+), last enqueued NCCL work: (?P<enq>\d+), "
        r"last completed NCCL work: (?P<done>\d+)",
        rf"{_WHO}.{{0,60}}at work sequence id: (?P<seq>\d+) PG status: last enqueued work: (?P<enq>\d+), "
        r"last completed work: (?P<done>\d+)",
        rf"{_WHO}.{{0,80}}{_WORK}.*timed out in blocking wait",
        r"lagging/dead/mismatched ranks.{0,60}: *\[?(?P<lag>[\d, ]+)",
        rf"{_WHO}.{{0,80}}Received a (?:dump|global) .{{0,80}}(?:timeout|exception).{{0,200}}"
        r"Last enqueued NCCL work: (?P<enq>\d+), last completed NCCL work: (?P<done>\d+)",
        r"Watchdog caught collective operation timeout",
        r"caught collective operation timeout",
        r"Received a dump signal due to a collective timeout",
        r"Heartbeat monitor timed out|detected no heartbeat",
        r"watchdog.{0,60}(?:got stuck|hang|timed out)",
        r"Timed out waiting \d+ms for (?:recv|send|all)",
        r"NCCL.{0,80}operation timed out",
        r"[Rr]emote rank did not (?:send|answer|respond|join)",
        r"abort is already in progress.{0,40}again to forcibly",
    ),
    explains=("torch-distributed-error", "server-waits", "stands-still", "killed-by-launcher"),
    unless=("keep alive watchdog", "netdev watchdog"),
    confirm="py-spy dump --pid PID on the ranks that lag or are silent; TORCH_NCCL_TRACE_BUFFER_SIZE=2000 keeps what "
    "each rank called (flight recorder)",
    cure=(
        "look at the rank that lags: it crashed, runs out of step (uneven batches, evaluation or checkpoint on rank 0 "
        "alone), or its network stands still. Raise the time only for work that takes longer: "
        "init_process_group(timeout=...)"
    ),
    cost="all ranks wait until the watchdog ends the job",
    source="torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
    tell=tell,
)
