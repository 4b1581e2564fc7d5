"""`busbw runs`: lists, filters, shows, tags and deletes kept runs, and answers SQL about all of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from busbw.base.effort import EFFORT
from busbw.base.errors import UsageError, UserError
from busbw.base.words import Args
from busbw.runs import store
from busbw.runs.lookup import find_one

EPILOG = """\
Runs are in --runs DIR, else $BUSBW_RUNS, else the user's data folder, one
folder each.

tables of `busbw runs sql`:
  runs         run, started, finished, outcome, tool, tool_version, library,
               library_version, machine, hosts, launcher, ranks, collectives,
               cases, peak_busbw_GBps, wrong, note, problem, id
  cases        run, "case", cycle, collective, type, op, root, ranks, bytes,
               placement, outcome, time_us, algbw_GBps, busbw_GBps, wrong,
               variant
  tags         run, tag
  environment  run, name, value

examples:
  busbw runs --collective all_reduce --since 7d
  busbw runs show 20260102T0304
  busbw runs tag 20260102T0304 good driver-570 --note "after the update"
  busbw runs delete 20260102T0304
  busbw runs sql "SELECT machine, bytes, max(busbw_GBps)
                  FROM cases JOIN runs USING (run) GROUP BY 1, 2"
  busbw runs index --rebuild
"""


def run(args: Args) -> int:
    root = store.location(args.runs)
    actions = {"list": _list, "show": _show, "tag": _tag, "delete": _delete, "sql": _sql, "index": _index}
    actions[args.action](root, args)
    return 0


def _list(root: Path, args: Args) -> None:
    from busbw.runs.index import Index
    from busbw.runs.query import Filter, list_runs, parse_since

    try:
        since = parse_since(args.since) if args.since else None
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    names = ("collective", "library", "host", "machine", "outcome")
    chosen = {name: getattr(args, name) for name in names}
    with Index(root) as index:
        found = list_runs(index, Filter(**chosen, since=since, tag=tuple(args.tag)))
    shown = found[: args.limit] if args.limit else found
    if args.json:
        for each in shown:
            print(json.dumps(vars(each), ensure_ascii=False))
        return
    if not found:
        print(f"no such run in {root}" if any(chosen.values()) or since else f"no runs in {root}", file=sys.stderr)
        return
    from busbw.report.runs import runs_table

    print("\n".join(runs_table(shown)))
    if len(shown) < len(found):
        print(f"... {len(found) - len(shown)} older runs; --limit 0 lists all", file=sys.stderr)


def _show(root: Path, args: Args) -> None:
    from busbw.cli.sources import say_part
    from busbw.records import read_records
    from busbw.report.runs import run_text
    from busbw.runs.destination import RECORD_NAME

    folder = find_one(args.run, root)
    with EFFORT.examining():
        records = read_records(folder / RECORD_NAME, say_part)
    for record in records:
        print(run_text(record, store.read_labels(folder), folder), end="")


def _tag(root: Path, args: Args) -> None:
    folder = find_one(args.run, root)
    if not args.tag and args.note is None:
        raise UsageError("name a tag, or a --note")
    old = store.read_labels(folder)
    missing = [tag for tag in args.tag if tag not in old.tags]
    if args.remove and missing:
        raise UserError(f"run {folder.name} has no tag '{missing[0]}' (it has: {', '.join(old.tags) or 'none'})")
    tags = [tag for tag in old.tags if tag not in args.tag] if args.remove else [*old.tags, *dict.fromkeys(missing)]
    store.write_labels(folder, store.Labels(tuple(tags), old.note if args.note is None else args.note))


def _delete(root: Path, args: Args) -> None:
    folders = [root / word if store.is_empty(root, word) else find_one(word, root) for word in args.run]
    for folder in dict.fromkeys(folders):
        if args.yes or _agreed(folder.name):
            store.delete(folder)
            print(f"deleted {folder.name}")


def _agreed(name: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(f"deleting {name} needs a yes, and nobody can be asked here; add --yes")
    print(f"delete {name}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _sql(root: Path, args: Args) -> None:
    from busbw.base.text import columns
    from busbw.runs.index import Index

    with Index(root) as index:
        names, rows = index.select(args.query)
        if args.json:
            for row in rows:
                print(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False))
            return
        found = list(rows)
    left = [i for i in range(len(names)) if any(isinstance(row[i], str) for row in found)]
    print("\n".join(columns(names, [[_cell(value) for value in row] for row in found], left=left)))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _index(root: Path, args: Args) -> None:
    from busbw.runs.index import Index

    with Index(root, rebuild=args.rebuild, enters_all=True) as index:
        (count,) = index.rows("SELECT count(*) FROM runs")[0]
        print(f"{count} runs indexed in {root}: {index.changed.read} read, {index.changed.dropped} dropped")
        for name, problem in index.rows("SELECT run, problem FROM runs WHERE problem IS NOT NULL"):
            print(f"  {name}: {problem}")
