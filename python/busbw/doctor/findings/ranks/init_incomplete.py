"""Ranks that began to initialise a communicator and did not end, or never began."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.lines.hit import Hit
from busbw.doctor.signature import Signature, Stage
from busbw.doctor.signatures import SIGNATURES
from busbw.machine.nccl.log_model import Communicator, RankPlace

NAME = "init-incomplete"
Merged = tuple[list[RankPlace], int, str]
"""The ranks of a communicator over all logs, its size, and the first log that names it."""
_PROOF = Proof(
    instruction="py-spy dump or gdb -p on these ranks; the end of their own logs; NCCL_DEBUG_SUBSYS=INIT,NET"
)

_FIX = (
    "look at the hosts and processes of the ranks that are named: not started, crashed, or cut off by a firewall or a "
    "wrong interface (NCCL_SOCKET_IFNAME). Where all ranks wait while channels connect, try NCCL_P2P_DISABLE=1 (ACS, "
    "IOMMU) and NCCL_IB_DISABLE=1 in turn. The log may also be cut off"
)


_ENDS = frozenset({"job-cancelled", "killed-by-launcher"})
"""Who waits for ever is ended by somebody: that is no cause."""


def examine(facts: Facts) -> Iterator[Finding]:
    hits = {name for scan in facts.scans for name in scan.hits}
    cut_short = bool(hits & _ENDS) and all(name in _ENDS or _follows(SIGNATURES[name]) for name in hits)
    ends_in_init = {
        log.source
        for log, scan in zip(facts.logs, facts.scans, strict=True)
        if scan.lines - log.lines <= _TRAILING and all(hit.last <= log.lines for hit in scan.hits.values())
    }
    merged = _merged(facts)
    if (apart := _of_several_ids(merged)) is not None:
        yield apart
        return
    for name, (places, nranks, source) in merged.items():
        begun = {place.rank for place in places}
        open_ranks = begun - {place.rank for place in places if place.complete}
        if not open_ranks:
            continue
        waiting = sorted(open_ranks)
        # A log of one process names its own ranks only: absence tells where most others are there, or all wait.
        # Counted before they are listed: one log may name thousands of communicators of 100,000 ranks.
        absent = nranks - sum(0 <= rank < nranks for rank in begun)
        tells = nranks <= MOST_RANKS and (len(begun) > 1 or nranks <= 2) and absent <= max(1, nranks // 2)
        ended = len(begun) - len(open_ranks)
        # No rank ends before all have begun: where one did, lines of the others are missing.
        told = sorted(set(range(nranks)) - begun) if tells and not ended else []
        hosts = sorted({place.host for place in places if place.rank in open_ranks and place.host})
        fact = f"init began on {len(begun)} of {nranks} ranks and ended on {ended}"
        who = told or (waiting if ended else [])
        title = fact + (f": rank {_ranks(who)} never {'began' if told else 'ended'}" if who else _all_of(facts, source))
        if told and _are_whole_hosts(places, nranks):
            title += ", unless the logs of their hosts were left out"
        # Nothing tells a rank that hangs from a log that ends while all is well, but for what comes after.
        open_end = not ended and {source} == ends_in_init and len(facts.logs) == 1
        # Ranks end one after the other: behind the last line of one that did may come one that is named.
        last = max((place.end for place in places), default=0)
        amid = ended and {source} == ends_in_init and len(facts.logs) == 1 and facts.scans[0].lines - last <= _TRAILING
        if open_end or amid:
            title += ", unless the log was cut off there"
        severity = Severity.WARNING if open_end else Severity.ERROR
        if _in_turn(places):
            severity, title = Severity.NOTE, f"{fact}: the log holds one rank after the other, and not all of them"
        elif ended and _went_on(facts, name, places):
            severity, title = Severity.NOTE, f"{fact}, and these went on: the logs hold one rank a host"
        yield Finding(
            NAME, severity, title,
            (Evidence(f"communicator {name}: waiting rank {_ranks(waiting)}"
                      + (f" on {', '.join(hosts[:8])}" if hosts else ""), source, places[0].line),),
            Cost("every rank of the communicator waits for them"),
            _FIX,
            _PROOF, stage=Stage.DRIVER if cut_short else Stage.FAILURE,
        )  # fmt: skip


def _all_of(facts: Facts, source: str) -> str:
    """What became of ranks of which none ended its init: NCCL told its caller an error, or nobody says so."""
    hits = {name for scan in facts.scans if scan.source == source for name in scan.hits}
    return ": an error ended it" if hits & {"nccl-error", "nccl-internal"} else ": all of them wait"


_OF_ONE_ID = (
    "give all ranks the id that rank 0 made: ncclGetUniqueId on rank 0 alone, once for each communicator, then "
    "MPI_Bcast, a store or a file. Every rank must have it before it calls ncclCommInitRank: no file of an earlier "
    "run, no id of another communicator (same order of creation on all ranks)"
)


def _of_several_ids(merged: Mapping[str, Merged]) -> Finding | None:
    """Ranks of one job that wait in communicators of several ids: each rank stands in one of them alone.

    Two groups of a job may wait too, but then ranks of the same number are in both, or one of them has all its ranks.
    """
    sizes = {nranks for _, nranks, _ in merged.values()}
    if len(merged) < 2 or len(sizes) != 1 or not all(name.startswith("0x") and " " not in name for name in merged):
        return None
    nranks = sizes.pop()
    places = [(place, name) for name, (found, _, _) in merged.items() for place in found]
    ranks = [place.rank for place, _ in places]
    if nranks > MOST_OF_IDS or sorted(ranks) != list(range(nranks)) or any(place.complete for place, _ in places):
        return None
    by_id = [f"rank {_ranks(sorted(each.rank for each in found))} {name}" for name, (found, _, _) in merged.items()]
    return Finding(
        NAME, Severity.ERROR,
        f"ranks use different unique ids: of {nranks} ranks, {len(merged)} groups wait in communicators of their own "
        f"(commId: {'; '.join(by_id[:4])}{' ...' if len(by_id) > 4 else ''})",
        tuple(Evidence(f"communicator {name}: waiting rank {_ranks(sorted(each.rank for each in found))} of {nranks}",
                       source, found[0].line) for name, (found, _, source) in list(merged.items())[:3]),
        Cost("every rank waits for others that never come to its communicator"),
        _OF_ONE_ID,
        Proof(instruction="print a hash of the ncclUniqueId on every rank before ncclCommInitRank: all must be equal"),
        stage=Stage.LAUNCH,
    )  # fmt: skip


MOST_OF_IDS = 4096
MOST_RANKS = 200_000
_TRAILING = 2
"""Lines after NCCL's last one that tell of nothing: what a prompt or a paste adds."""


def _in_turn(places: Sequence[RankPlace]) -> bool:
    """Whether an init ended before another rank's began: no job does that, so that the lines are not in time's order.

    Such a log is put together of one for each rank. Where those that wait come after all that ended, it was cut off.
    """
    ended = max((place.end for place in places if place.end), default=0)
    return bool(ended) and all(place.line > ended for place in places if not place.complete)


def _by_host(places: Sequence[RankPlace]) -> dict[str, dict[int, bool]]:
    """By host its ranks, and whether their init ended."""
    hosts: dict[str, dict[int, bool]] = defaultdict(dict)
    for place in places:
        hosts[place.host][place.rank] = hosts[place.host].get(place.rank, False) or place.complete
    return hosts


def _are_whole_hosts(places: Sequence[RankPlace], nranks: int) -> bool:
    """Whether the ranks that are told fill their hosts, so that all others are of hosts of which no line is here."""
    counts = {len(each) for each in _by_host(places).values()}
    size = counts.pop() if len(counts) == 1 else 0
    return size > 1 and nranks % size == 0


def _went_on(facts: Facts, name: str, places: Sequence[RankPlace]) -> bool:
    """Whether one rank of each host ended its init and called collectives: ranks of a host end it together."""
    called = {rank for scan in facts.scans for communicator, rank in scan.calls.by_rank if communicator == name}
    hosts = _by_host(places).values()
    ended = [[rank for rank, complete in each.items() if complete] for each in hosts]
    leaders = all(len(mine) == 1 and len(each) > 2 for mine, each in zip(ended, hosts, strict=True))
    return leaders and all(rank in called for mine in ended for rank in mine)


def _follows(signature: Signature) -> bool:
    """Whether it tells an effect, or no more than who reports."""
    return signature.stage >= Stage.EFFECT or signature.last or signature.severity is Severity.NOTE


def _merged(facts: Facts) -> dict[str, Merged]:
    """The ranks of each communicator over all logs, its size, and the first log that names it."""
    found: dict[str, Merged] = {}
    for log, scan in zip(facts.logs, facts.scans, strict=True):
        # Steps or results behind an init that has no end, and no error: lines are missing, and nobody waits.
        # What counts between nodes alone failed nobody on one node.
        alone = facts.ran_on_one_node
        failed = any(
            SIGNATURES[name].severity is Severity.ERROR
            and not (alone and SIGNATURES[name].between_nodes)
            and _is_held(SIGNATURES[name], hit)
            for name, hit in scan.hits.items()
        )
        # A benchmark that printed its whole table had all its ranks, whatever else failed beside it.
        whole = scan.kinds["rows"] and scan.kinds["ends"] >= scan.kinds["headers"] > 0
        well = scan.alive if whole or ((scan.kinds["steps"] or _measured(facts)) and not failed) else 0
        for each in log.communicators:
            if not each.ranks or each.nranks is None:
                continue
            if any(not place.complete for place in each.ranks) and all(
                place.complete or place.line < well for place in each.ranks
            ):
                continue
            # Only from 2.18 on have communicators a name that no other log uses.
            name = each.id if each.id.startswith("0x") else f"{each.id} in {log.source}"
            places, nranks, source = found.get(name, ([], each.nranks, log.source))
            found[name] = ([*places, *_of(each)], nranks, source)
    return found


def _is_held(signature: Signature, hit: Hit) -> bool:
    """Whether the lines are enough for what it says: some words tell a fault only beside others."""
    return signature.holds is None or signature.holds([dict(each) for each in hit.groups])


def _measured(facts: Facts) -> bool:
    """Whether the one log holds tables of all ranks it names: an init that did not end measures nothing."""
    sizes = {each.nranks for log in facts.logs for each in log.communicators if each.ranks}
    measured = {len(each.run.ranks) for each in facts.records if any(case.busbw_GBps for case in each.cases)}
    return len(facts.logs) == 1 and bool(sizes) and sizes <= measured


def _of(communicator: Communicator) -> Sequence[RankPlace]:
    return communicator.ranks


def _ranks(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks[:16])) + (" ..." if len(ranks) > 16 else "")
