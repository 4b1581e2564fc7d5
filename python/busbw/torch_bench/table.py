"""The table that people read while rank 0 measures: the columns of nccl-tests, one placement."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.records import Case, Library, Rank


def head(library: Library, ranks: Sequence[Rank], page: bool) -> str:
    """Who measures, and the columns."""
    lines = [f"# {library.name}, {len(ranks)} ranks"]
    for rank in ranks:
        device = f"{rank.device.kind} {rank.device.index} {rank.device.name}" if rank.device else ""
        lines.append(f"#  Rank {rank.rank:2} Pid {rank.pid:6} on {rank.host} {device}")
    if not page:
        lines += [
            "#",
            _columns("size", "count", "type", "redop", "time", "algbw", "busbw", "#wrong"),
            _columns("(B)", "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)", ""),
        ]
    return "\n".join(lines)


def _columns(*names: str) -> str:
    size, count, type_, op, time, algbw, busbw, wrong = names
    return f"# {'':14} {size:>12} {count:>12} {type_:>8} {op:>6} {time:>10} {algbw:>7} {busbw:>7} {wrong:>6}".rstrip()


def row(case: Case) -> str:
    """One case."""
    start = f"  {case.collective:14} {case.bytes:12} {case.count:12} {case.type:>8} {case.op or 'none':>6}"
    if case.time_us is None:
        return f"{start}  {case.outcome}: {case.reason}"
    wrong = "N/A" if case.wrong is None else f"{case.wrong:g}"
    return f"{start} {case.time_us:10.2f} {case.algbw_GBps or 0:7.2f} {case.busbw_GBps or 0:7.2f} {wrong:>6}"


def foot(cases: Sequence[Case]) -> str:
    """What nccl-tests ends with."""
    rates = [case.busbw_GBps for case in cases if case.busbw_GBps is not None]
    wrong = sum(bool(case.wrong) for case in cases)
    lines = [f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}"]
    if rates:
        lines.append(f"# Avg bus bandwidth    : {sum(rates) / len(rates):g}")
    return "\n".join(lines)
