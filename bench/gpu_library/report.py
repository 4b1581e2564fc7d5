"""The page of results: tables and verdicts out of what the stages kept."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_library.figures import Figure, Sample, busbw_GBps, from_plain, summarise
from gpu_library.peers import OURS, OWN
from gpu_library.session import Result
from gpu_library.sizes import words
from gpu_library.stages import beside, check, cross, sweep, training
from gpu_library.verdict import Verdict, compare_with_targets, judge, line, load_targets, reach_line

Key = tuple[str, int, str]
Rows = dict[int, dict[str, Figure]]

BEFORE = Path(__file__).with_name("peers_h200.json")


def speed_tables(results: Sequence[Result]) -> dict[Key, Rows]:
    """By collective, GPUs and band: rows by size, figures by library, over all rounds."""
    samples: dict[tuple[Key, str], list[Sample]] = defaultdict(list)
    for result in results:
        key = (result["collective"], result["gpus"], result["band"])
        samples[key, result["peer"]] += [from_plain(each) for each in result["samples"]]
    tables: dict[Key, Rows] = defaultdict(lambda: defaultdict(dict))
    for (key, peer), found in samples.items():
        for size, figure in summarise(found).items():
            tables[key][size][peer] = figure
    return {key: dict(sorted(rows.items())) for key, rows in sorted(tables.items(), key=lambda t: _order(t[0]))}


def _order(key: Key) -> tuple[int, bool, bool, str]:
    collective, gpus, band = key
    return (-gpus, band != "graph", collective != "all_reduce", collective)


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    return [
        judge(key, size, row) for key, rows in speed_tables(results).items() for size, row in rows.items()
    ]  # fmt: skip


def closing_lines(call: Mapping[str, Any]) -> list[str]:
    """What a person wants to see last: one line per size, then the goals, then the other stages in a line each."""
    stages = call["stages"]
    lines: list[str] = []
    if stages.get("speed"):
        judged = verdicts(stages["speed"])
        lines += [line(v) for v in judged]
        lines += [reach_line(r) for r in compare_with_targets(judged, load_targets()[1]) if r.ours]
        counted = Counter(v.word for v in judged)
        lines.append("speed: " + ", ".join(f"{count} {word}" for word, count in counted.most_common()))
    lines += [f"{name}: broke off: {reason}" for name, reason in call.get("broken", {}).items()]
    lines += [each for each in map(_stage_line, stages.items()) if each]
    return lines


def _stage_line(item: tuple[str, Sequence[Result]]) -> str:
    name, results = item
    good = {
        "build": lambda r: r["exit"] == 0, "check": check.passed, "stress": lambda r: r["exit"] == 0,
        "sanitizer": lambda r: r["exit"] == 0, "beside": lambda r: r["exit"] == 0,
        "cross": lambda r: r["exit"] == 0, "faults": lambda r: r["passed"],
        "training": lambda r: r["exit"] == 0 and r["equal"], "sweep": lambda r: r["exit"] == 0,
    }.get(name)  # fmt: skip
    if good is None:
        return ""
    calls = f", {sum(r.get('calls', 0) for r in results)} calls" if name == "stress" else ""
    return f"{name}: {sum(map(bool, map(good, results)))} of {len(results)} good{calls}"


def passed(call: Mapping[str, Any]) -> bool:
    """Whether everything that can be right or wrong was right; being slower is a result, not a failure."""
    stages = call["stages"]
    wrong = any(s.get("wrong") for r in stages.get("speed", []) if r["peer"] in OWN for s in r["samples"])
    ours_ended = all(r["exit"] == 0 for r in stages.get("speed", []) if r["peer"] in OWN)
    checked = {name: results for name, results in stages.items() if name not in {"speed", "sweep"}}
    good = all(_stage_line(item).startswith(f"{item[0]}: {len(item[1])} of") for item in checked.items())
    return good and not wrong and ours_ended and not call.get("broken")


def markdown(calls: Sequence[Mapping[str, Any]]) -> str:
    merged = merge(calls)
    stages = merged["stages"]
    out = ["# Our own GPU collectives beside their peers", "",
           "Made by `python3 bench/gpu_library`; times are medians in microseconds, out of place.", ""]  # fmt: skip
    out += [f"- {name}: {value}" for name, value in merged["machine"].items()]
    out += [f"- stage {name} broke off: {reason}" for name, reason in merged["broken"].items()]
    for title, stage, section in (
        ("Speed", "speed", _speed),
        ("nccl-tests beside the engine", "cross", _cross),
        ("Right results", "check", _check),
        ("Random calls", "stress", _stress),
        ("PyTorch", "training", _training),
        ("Beside work", "beside", beside.table),
        ("Lost ranks", "faults", _faults),
        ("compute-sanitizer", "sanitizer", _sanitizer),
        ("Algorithms and shapes", "sweep", _sweep),
    ):
        if stages.get(stage):
            out += ["", f"## {title}", "", *section(stages[stage])]
    return "\n".join(out) + "\n"


def merge(calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several calls on one machine as one; the first says what the machine is."""
    stages: dict[str, list[Result]] = defaultdict(list)
    for call in calls:
        for name, results in call["stages"].items():
            stages[name] += results
    broken = {name: reason for call in calls for name, reason in call.get("broken", {}).items()}
    return {"machine": calls[0]["machine"], "stages": dict(stages), "broken": broken}


def best_before() -> tuple[str, dict[str, dict[str, float]]]:
    """Where the earlier figures of the peers come from, and the best of them by `collective/GPUs` and bytes."""
    kept = json.loads(BEFORE.read_text())
    return kept["source"], kept["best_us"]


def _speed(results: Sequence[Result]) -> list[str]:
    source, targets = load_targets()
    earlier_source, earlier = best_before()
    judged = verdicts(results)
    lines = ["Ahead, behind: by more than half of both spreads, which lie between quartiles. A goal is in GB/s of bus",
             "bandwidth where it says so. torch symm_mem: the faster of one-shot and two-shot, which is in place.", "",
             f"Goals: {source}", "", f"Best before: {earlier_source}"]  # fmt: skip
    reaches = {(r.target.collective, r.target.gpus, r.target.band, r.target.size): r
               for r in compare_with_targets(judged, targets)}  # fmt: skip
    for key, rows in speed_tables(results).items():
        collective, gpus, band = key
        others = sorted({name for row in rows.values() for name in row} - {OURS}, key=_peer_order)
        lines += ["", f"### {collective}, {gpus} GPUs, {band}", ""]
        lines.append(
            "| size | ours | spread | " + " | ".join(others) + " | ours is | busbw (GB/s) | goal | best before | by |"
        )
        lines.append("|---:|---:|---:|" + "---:|" * len(others) + "---|---:|---:|---:|---|")
        for size, row in rows.items():
            verdict = judge(key, size, row)
            reach = reaches.get((*key, size))
            before = earlier.get(f"{collective}/{gpus}", {}).get(str(size)) if band == "graph" else None
            cells = [_time(row.get(OURS)), _spread(row.get(OURS)), *(_time(row.get(name)) for name in others),
                     _verdict_cell(verdict), _busbw(verdict), _goal(reach), "" if before is None else f"{before:g}",
                     (verdict.ours.algorithm or "") if verdict.ours else ""]  # fmt: skip
            lines.append(f"| {words(size)} | " + " | ".join(cells) + " |")
    return [*lines, *_failures(results)]


def _peer_order(name: str) -> tuple[int, str]:
    return (0 if name in OWN else 1 if name.startswith("NCCL") else 2, name)


def _time(figure: Figure | None) -> str:
    if figure is None:
        return ""
    text = f"{figure.us:.2f}" if figure.us < 100 else f"{figure.us:.0f}"
    return f"{text} WRONG" if figure.wrong else text


def _spread(figure: Figure | None) -> str:
    return "" if figure is None else f"{figure.spread_us:.2f} of {figure.samples}"


def _verdict_cell(verdict: Verdict) -> str:
    if verdict.ratio is None:
        return verdict.word
    text = f"{verdict.word}, x {verdict.ratio:.2f}"
    return f"**{text}**" if verdict.word in {"behind", "wrong"} else text


def _busbw(verdict: Verdict) -> str:
    if verdict.ours is None:
        return ""
    return f"{busbw_GBps(verdict.collective, verdict.gpus, verdict.size, verdict.ours.us):.1f}"


def _goal(reach: Any) -> str:
    if reach is None:
        return ""
    goal = f"{reach.target.us:g}" if reach.target.us is not None else f"{reach.target.busbw_GBps:g} GB/s"
    return f"{goal} {'reached' if reach.reached else 'not reached'}" if reach.ours else goal


def _failures(results: Sequence[Result]) -> list[str]:
    failed = Counter(
        (r["peer"], r["collective"], r["gpus"], r["band"], r["exit"], r["reason"]) for r in results if r["exit"] != 0
    )
    lines = ["", "Ended badly:", ""] if failed else []
    for (peer, collective, gpus, band, code, reason), count in failed.items():
        lines.append(f"- {peer}, {collective}, {gpus} GPUs, {band}: exit {code}, {count} times: {reason}")
    return lines


def _check(results: Sequence[Result]) -> list[str]:
    lines = ["| program | what | GPUs | ranks as | runs | rows | rows with wrong elements | kernels at work | failed |",
             "|---|---|---:|---|---:|---:|---:|---|---|"]  # fmt: skip
    groups: dict[tuple[str, str, int, str], list[Result]] = defaultdict(list)
    for r in results:
        groups[r["tool"], r["what"], r["gpus"], r["mode"]].append(r)
    for (tool, what, gpus, mode), group in groups.items():
        failed = [f"{r['collective']} ({_why(r)})" for r in group if not check.passed(r)]
        rows, wrong = sum(r["rows"] for r in group), sum(r["wrong"] for r in group)
        kernels = ", ".join(sorted({name for r in group for name in r.get("used", [])}))
        counts = f"{len(group)} | {rows} | {wrong}"
        lines.append(f"| {tool} | {what} | {gpus} | {mode} | {counts} | {kernels} | {'; '.join(failed)} |")
    return lines


def _why(result: Result) -> str:
    if result["exit"] != 0:
        return f"exit {result['exit']}: {result['reason']}"
    return "ours did nothing" if result["rows"] and not result["wrong"] else f"{result['wrong']} wrong rows"


def _cross(results: Sequence[Result]) -> list[str]:
    lines = ["| collective | library | size | nccl-tests (us) | engine (us) | engine over nccl-tests |",
             "|---|---|---:|---:|---:|---:|"]  # fmt: skip
    for collective, library, size, theirs, engine in cross.compared(results):
        times = f"{theirs:.2f} | {engine:.2f} | {engine / theirs:.3f}"
        lines.append(f"| {collective} | {library} | {words(size)} | {times} |")
    return lines


def _stress(results: Sequence[Result]) -> list[str]:
    lines = ["| ranks as | seed | calls | of | seconds | batches | outcome |", "|---|---:|---:|---:|---:|---|---|"]
    for r in results:
        batches = ", ".join(f"{count} {name}" for name, count in r.get("batches", {}).items())
        outcome = "0 wrong" if r["exit"] == 0 else f"exit {r['exit']}: {r['reason']}"
        lines.append(f"| {r['shape']} | {r.get('seed', '')} | {r.get('calls', 0)} | {r['asked']} "
                     f"| {r.get('seconds', 0):.1f} | {batches} | {outcome} |")  # fmt: skip
    return lines


def _training(results: Sequence[Result]) -> list[str]:
    lines = ["| workload | same bits on all ranks | same as NCCL | NCCL (ms) | ours (ms) | times as fast | rounds |",
             "|---|---|---|---:|---:|---:|---:|"]  # fmt: skip

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.3f}"

    for r in training.summarise(results):
        lines.append(f"| {r['workload']} | {_yes(r['equal'])} | {_yes(r['same_as_nccl'])} | {number(r['nccl_ms'])} "
                     f"| {number(r['ours_ms'])} | {number(r['speed'])} | {r['rounds']} |")  # fmt: skip
    failed = [r for r in results if r["exit"] != 0]
    return [*lines, *(f"\n{r['workload']} with {r['side']}: exit {r['exit']}: {r['reason']}" for r in failed)]


def _yes(value: bool | None) -> str:
    if value is None:
        return "not measured"
    return "yes" if value else "**no**"


def _faults(results: Sequence[Result]) -> list[str]:
    lines = ["| who must notice | lost rank | other rank | exit code | after (s) | names it | said |",
             "|---|---:|---:|---:|---:|---|---|"]  # fmt: skip
    for r in results:
        for s in r["survivors"]:
            lines.append(f"| {r['fault']} | {r['lost']} | {s['rank']} | {s['code']} | {s['seconds']:.1f} "
                         f"| {_yes(s['names_it'])} | {s['said'].replace('|', '/')} |")  # fmt: skip
    return lines


def _sanitizer(results: Sequence[Result]) -> list[str]:
    lines = ["| tool | program | exit code | found |", "|---|---|---:|---|"]
    return [*lines, *(f"| {r['tool']} | {r['program']} | {r['exit']} | {r['found']} |" for r in results)]


def _sweep(results: Sequence[Result]) -> list[str]:
    lines = [
        "| collective | GPUs | size | fastest | us | fastest of another kind | us |",
        "|---|---:|---:|---|---:|---|---:|",
    ]  # fmt: skip
    for collective, gpus, size, use, us, second, second_us in sweep.winners(results):
        lines.append(f"| {collective} | {gpus} | {words(size)} | {use} | {us:.2f} | {second} | {second_us:.2f} |")
    for r in results:
        if r["exit"] != 0:
            lines += ["", f"{r['kind']}, {r['collective']}, {r['gpus']} GPUs: exit {r['exit']}: {r['reason']}"]
        lines += ["", *(f"    {line}" for line in r.get("table", "").splitlines())] if r.get("table") else []
    return lines
