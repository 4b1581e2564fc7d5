"""Ranks that say that they are done, while others still wait for them in a collective."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.lines.speakers import rank_of
from busbw.doctor.shown_texts import Text, named

_FAILED = re.compile(
    r"Watchdog caught|caught collective operation timeout|failed to pass monitoredBarrier|Timed out waiting \d{1,9}ms"
    r"|timed out in blocking wait|NCCL WARN|Traceback \(most recent"
)
_END = re.compile(
    r"\b(?:training|train loop|work|job|all (?:\d{1,6} )?(?:epochs|steps|batches)|last epoch|fit|run)\b.{0,24}"
    r"\b(?:done|finished|completed?|ended|over)\b|\b(?:done|finished|completed)(?: with)? (?:training|all|the last)\b"
    r"|\ball done\b|\bexit(?:ing|ed|s)\b(?!.{0,20}\b(?:code|status)\W{0,3}-?[1-9])"
    r"|\breached (?:max_steps|the end|the last)"
    r"|\b(?:no more|ran out of|out of) (?:batches|data|samples|shards)\b|\bshutting down\b"
    r"|\b(?:data|loader|iterator|dataset)\b.{0,20}\bexhausted\b|\bdestroy(?:ing|ed) (?:the )?process group\b",
    re.IGNORECASE,
)
_BARE = re.compile(
    r"^\W{0,3}(?:\[?(?:rank|worker|process)\W{0,3})?(?P<rank>\d{1,6})[\]:,]{0,2} {0,2}(?:is |has )?"
    r"(?P<end>done|finished|exiting|leaving|bye|exit)\W{0,4}$",
    re.IGNORECASE,
)
"""`3 Done.`, as a program prints it behind its rank."""
_NO_END = re.compile(
    r"\blast (?:enqueued|started|completed)\b|\b(?:error|fail\w*|not|never|before|until|will|if)\b|n't\b", re.IGNORECASE
)
_SPEAKS = re.compile(r"\brank\W{0,2}(\d{1,6})\b", re.IGNORECASE)
_STEPS = re.compile(
    r"\b(?:after|in|of|total|ran|took)\W{0,3}(?P<n>\d{1,9}) (?P<what>steps|batches|iterations|iters)\b"
    r"|\b(?:step|batch|iter(?:ation)?)\W{1,3}(?P<at>\d{1,9})\b",
    re.IGNORECASE,
)
_EPOCH = re.compile(r"\bepoch\W{0,3}(?P<n>\d{1,6})\b", re.IGNORECASE)
_FILE = re.compile(r"\S{1,120}\.(?:pt|tar|parquet|arrow|npz?|bin|jsonl?|csv|h5|tfrecords?|mds|zst)\b")
_CALLED = re.compile(r"\bOpType=(?P<op>\w{2,30})")
_BARRIER = re.compile(r"\bOpType=ALLREDUCE, NumelIn=1,|\bOpType=BARRIER\b")
_STORE_GONE = re.compile(r"\b(?:recvValue|sendBytes|recvBytes) failed on SocketImpl|TCPStore server has shut down")
"""Rank 0 holds the store: who waits in a barrier then waits for a rank that has left."""
_WAITS = re.compile(r"\brank ?(?P<rank>\d{1,6})\b", re.IGNORECASE)
_MOST, _SHOWN = 20_000, 6
UNEVEN_CURE = (
    "give all ranks the same number of batches: files of equal size whose number is a multiple of the ranks, "
    "DistributedSampler (drop_last=True), or a fixed number of steps. Or train under DDP's join(), which lets the "
    "others go on. A longer time, the network and NCCL have no part in it"
)
_CONDITION_CURE = (
    "call each collective on all ranks: take barrier() and the like out of `if rank == ...`. No rank may return, end "
    "or throw before it alone. Or give those ranks a group of their own (new_group). A longer time, the network and "
    "NCCL have no part in it"
)


def ended_before(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A rank's last own line is that it is done, and those that wait say no such thing."""
    for text in texts:
        failed = _FAILED.search(text.text)
        if failed is None:
            continue
        told = _Told(text, failed.start())
        waiting = waiting_ranks(text, failed.start()) or {rank for rank in told.last if rank not in told.ended}
        done = {rank: at for rank, at in told.ended.items() if rank not in waiting}
        # Who says nothing but its end is told by its own number, where it is the only one that does not wait.
        alone = done.keys() <= told.bare and _whole(waiting | done.keys())
        if done.keys() <= told.bare and told.bare & waiting:
            continue  # those who wait said the same: it was the end of a part
        if not done or not waiting or not (waiting & told.last.keys() or alone):
            continue
        first = min(done, key=int)
        op = _CALLED.search(text.text, failed.start())
        seen = (text.evidence(done[first]), *told.apart_seen)
        who = f"{listed(done)} {'had' if len(done) < 2 else 'have'} ended ({named(told.words[first], 50)})"
        what = f"{who} while {listed(waiting)} still waited in a collective{f' ({op[1]})' if op else ''}"
        left = "0" in done and _BARRIER.search(text.text, failed.start()) and _STORE_GONE.search(text.text)
        if (alone or left) and not told.apart:
            return Sharper(
                f"{what}: {listed(done)} {'does' if len(done) < 2 else 'do'} not call it, so that it stands under a "
                "condition, or behind an early end",
                _CONDITION_CURE,
                seen,
            )
        apart = f" ({'; '.join(told.apart)})" if told.apart else ""
        return Sharper(f"{what}: ranks do different numbers of steps{apart}", UNEVEN_CURE, seen)
    return None


def _whole(ranks: set[str]) -> bool:
    """Whether these are all ranks from 0 on, as far as the highest of them tells."""
    return len(ranks) > 1 and max(map(int, ranks)) == len(ranks) - 1


class _Told:
    """What ranks said up to a place: their last lines, which of these are an end, and what they count apart."""

    def __init__(self, text: Text, until: int) -> None:
        self.last: dict[str, int] = {}
        self.ended: dict[str, int] = {}
        self.bare: set[str] = set()
        self.words: dict[str, str] = {}
        counted: dict[str, dict[str, tuple[int, int]]] = {}
        files: dict[str, tuple[int, int]] = {}
        at = 0
        for line in islice(text.text[:until].split("\n"), _MOST):
            found = _SPEAKS.search(line[:120])
            if bare := _BARE.match(line[:120]):
                self._end_bare(str(int(bare["rank"])), bare["end"], at)
                at += len(line) + 1
                continue
            rank = rank_of(line) or (str(int(found[1])) if found else "")
            if rank:
                self._note(rank, line, at)
                if (steps := _STEPS.search(line)) and steps["n"] and (epoch := _EPOCH.search(line)):
                    counted.setdefault(epoch["n"], {})[rank] = int(steps["n"]), at
                if len(names := _FILE.findall(line)) > 1:
                    files.setdefault(rank, (len(names), at))
            at += len(line) + 1
        self.apart, self.apart_seen = _apart(text, files, counted)

    def _end_bare(self, rank: str, word: str, at: int) -> None:
        self.last[rank] = self.ended[rank] = at
        self.words[rank] = word
        self.bare.add(rank)

    def _note(self, rank: str, line: str, at: int) -> None:
        self.last[rank] = at
        end = _END.search(line)
        if end is not None and not _NO_END.search(line):
            self.ended[rank], self.words[rank] = at, end[0]
        else:
            self.ended.pop(rank, None)


def _apart(
    text: Text, files: Mapping[str, tuple[int, int]], counted: Mapping[str, Mapping[str, tuple[int, int]]]
) -> tuple[list[str], tuple[Evidence, ...]]:
    """In which numbers ranks differ, of files and of steps of one epoch, with a line of each."""
    told, seen = [], []
    epoch = next((ranks for ranks in counted.values() if len({n for n, _ in ranks.values()}) > 1), None)
    for what, ranks in (("files", files), ("steps an epoch", epoch or {})):
        if len({number for number, _ in ranks.values()}) < 2:
            continue
        few, many = (pick(ranks, key=lambda rank: ranks[rank][0]) for pick in (min, max))
        told.append(f"rank {few} has {ranks[few][0]} {what}, rank {many} {ranks[many][0]}")
        seen += [text.evidence(ranks[few][1]), text.evidence(ranks[many][1])]
    return told, tuple(seen)


def waiting_ranks(text: Text, at: int) -> set[str]:
    """The ranks whose watchdog speaks."""
    found = set()
    for line in islice(text.text[text.text.rfind("\n", 0, at) + 1 :].split("\n"), _MOST):
        if "Watchdog caught" in line and (who := rank_of(line)):
            found.add(who)
    return found


def listed(ranks: Mapping[str, object] | set[str]) -> str:
    known = sorted(map(int, ranks))
    return f"rank {', '.join(map(str, known[:_SHOWN]))}" + (" and others" if len(known) > _SHOWN else "")
