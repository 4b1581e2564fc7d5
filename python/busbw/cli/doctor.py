"""`busbw doctor`: what keeps a machine, live or saved, from its bandwidth; evidence, cost, fix and proof of each."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from busbw.base.errors import UserError, exiting_with
from busbw.base.terminal import read_or_not
from busbw.base.words import Args

if TYPE_CHECKING:
    from busbw.doctor.facts import Facts
    from busbw.doctor.finding import Finding
    from busbw.doctor.prove import Proven
    from busbw.doctor.verdict import Verdict

EPILOG = """\
Without files it looks at this machine: GPUs, links, configuration files,
environment. With files it looks at them alone, unless --live is given too. FILE
may be a bundle, a record, a log, an nccl.conf, a graph or topology file, a
folder of such files, or an archive (tar, zip) of them.

exit code: 0 healthy as far as was seen, 1 something found, 3 could not judge,
2 wrong usage or unreadable files

examples:
  busbw doctor
  busbw doctor --topology topo.xml --graph graph.xml
  busbw doctor --log job.out --conf /etc/nccl.conf
  busbw doctor job.out --machine p5        its nodes' type, if no line says it
  busbw doctor --prove                     measures what each finding costs here
  busbw doctor --collect node7.tar.gz      on the machine; then elsewhere:
  busbw doctor node7.tar.gz --page page.html    what one sends to a provider
  busbw doctor good.tar.gz bad.tar.gz      what differs, most suspicious first
"""


def run(args: Args) -> int:
    """Examine and print; see the epilog for exit codes."""
    from busbw.doctor.reading.archives import forgotten, shown

    # 1 is the word of a doctor that found something.
    with exiting_with(2), forgotten():
        try:
            return _run(args)
        except UserError as problem:
            raise UserError(shown(str(problem)), exit_code=problem.exit_code) from problem


def _run(args: Args) -> int:
    from busbw.doctor.examine import examine
    from busbw.doctor.facts import gather
    from busbw.doctor.host.collect import collect
    from busbw.doctor.reading.archives import shown, unpacked
    from busbw.doctor.reading.inputs import Inputs, bundles_of, listed, read_inputs
    from busbw.doctor.reading.pipes import kept
    from busbw.doctor.verdict import verdict
    from busbw.expect.machines import require

    files = kept(args.file)
    named = unpacked(listed(files))
    bundles = bundles_of(named)
    if len(bundles) > 1:
        return _side_by_side(args, bundles, [each for each in named if each not in bundles])
    inputs = Inputs(
        args.topology, args.graph, tuple(unpacked(listed(kept(args.log)))), tuple(args.conf), tuple(named), tuple(files)
    )
    base = collect() if args.live or args.collect or not inputs.any else None
    snapshot, records = read_inputs(inputs, base)
    if args.collect:
        from busbw.doctor.bundled import bundled
        from busbw.doctor.reading.bundle import write_bare

        what = bundled(snapshot, records)
        write_bare(what.snapshot, args.collect)
        print(f"{args.collect} is written; examine it anywhere with `busbw doctor {args.collect}`")
        if what.is_whole is False:
            print("busbw: it tells less than the logs: send them as well, where you may", file=sys.stderr)
        return 0
    facts = gather(snapshot, records, require(args.machine) if args.machine else None)
    apart = {args.topology, *args.file} - {log.source for log in facts.logs}
    if facts.stranger and snapshot.machine is not None and snapshot.machine.source in apart:
        raise UserError(f"{facts.stranger}; examine each by itself", exit_code=2)
    findings = examine(facts)
    said = verdict(facts, findings)
    if args.prove and not snapshot.live:
        raise UserError("saved files cannot be measured: run `busbw doctor --prove` on the machine itself")
    if not args.json:
        with read_or_not():
            _print(facts, findings, said, everything=args.verbose)
    proofs = _prove(args, facts, findings) if args.prove else []
    if args.json:
        with read_or_not():
            print(shown(json.dumps(_as_json(facts, findings, proofs, said), indent=1)))
    if args.page:
        from busbw.base.files import write_whole
        from busbw.doctor.page import page

        write_whole(args.page, shown(page(facts, findings, said, proofs)))
        print(f"busbw: {args.page} is written", file=sys.stderr)
    return said.outcome.value


def _side_by_side(args: Args, bundles: list[str], others: list[str]) -> int:
    """Bundles of several machines: what differs. Exit code 1 where something does."""
    from pathlib import Path

    from busbw.base.secrets import hidden
    from busbw.doctor.facts import gather
    from busbw.doctor.reading.archives import shown
    from busbw.doctor.reading.bundle import read_bundle
    from busbw.doctor.side_by_side import as_json, compare, lines

    if (
        others
        or args.live
        or args.collect
        or args.prove
        or args.page
        or args.topology
        or args.machine
        or args.graph
        or args.log
        or args.conf
    ):
        raise UserError("bundles of several machines are compared by themselves: give nothing beside them")
    if len(set(bundles)) < len(bundles):
        raise UserError("the same bundle is given twice")
    found = hidden(compare({name: gather(read_bundle(Path(name))) for name in bundles}))
    with read_or_not():
        print(shown(json.dumps(as_json(found), indent=1) if args.json else "\n".join(lines(found))))
    return 1 if found.differences else 3 if found.bare and not found.shared else 0


def _print(facts: Facts, findings: tuple[Finding, ...], said: Verdict, *, everything: bool) -> None:
    from busbw.base.text import sentences, wants_colour
    from busbw.doctor.finding import Severity
    from busbw.doctor.reading.archives import shown
    from busbw.doctor.text import describe, summary, verdict_lines

    colour = wants_colour(sys.stdout)
    brief = False
    for finding in findings:
        brief = finding.severity is Severity.NOTE and not everything
        print(shown("\n".join(describe(finding, colour=colour, brief=brief))))
        if not brief:
            print()
    print(shown("\n".join(sentences([summary(facts, findings)], bullet=""))))
    print(shown("\n".join(verdict_lines(said))))
    if brief:
        print("busbw doctor -v shows the notes in full")


def _prove(args: Args, facts: Facts, findings: tuple[Finding, ...]) -> list[Proven]:
    """Measure what was found above a note, tell the progress on stderr and the outcome on stdout."""
    from busbw.base.progress import progress
    from busbw.base.text import wants_colour
    from busbw.doctor.finding import Severity
    from busbw.doctor.prove import How, limits_of, prove, runnable, unproved, words_of
    from busbw.doctor.prove_text import proofs_text
    from busbw.runs.destination import new_run_id, runs_directory

    chosen = [each for each in findings if each.severity is not Severity.NOTE]
    limits = limits_of(args.budget)
    gpus = len(facts.visible.gpus) if facts.visible else 0
    ranks = args.ranks or gpus
    words = (*words_of(ranks, gpus), *(("--library", args.library) if args.library else ()))
    how = How(ranks, words, limits)
    if not any(runnable(each, how) for each in chosen):
        proofs = [unproved(each) for each in chosen]
        if not chosen and not args.json:
            print("nothing above a note: there is nothing to prove")
    else:
        folder = runs_directory(args.runs) / f"doctor-{new_run_id()}"
        print(f"busbw: measuring with {ranks} ranks; the experiment is kept in {folder}", file=sys.stderr)
        try:
            with progress(f"proving {len(chosen)} findings, at most {args.budget:g} s") as tell:
                proofs = prove(chosen, folder, replace(how, tell=tell))
        except UserError as problem:
            # What was found stands, whatever became of the measurement.
            print(f"busbw: {problem}", file=sys.stderr)
            proofs = [unproved(each, str(problem)) for each in chosen]
    if proofs and not args.json:
        with read_or_not():
            print("\n" + "\n".join(proofs_text(proofs, colour=wants_colour(sys.stdout))))
    return proofs


def _as_json(facts: Facts, findings: tuple[Finding, ...], proofs: list[Proven], verdict: Verdict) -> dict[str, object]:
    from busbw.doctor.reading.codec import encode
    from busbw.doctor.text import summary

    said: dict[str, object] = {
        "source": facts.snapshot.source, "summary": summary(facts, findings),
        "verdict": {
            "outcome": verdict.outcome.text,
            "seen": list(verdict.seen),
            "read": list(verdict.read),
            "unread": list(verdict.unread),
        },
        "findings": encode(findings),
    }  # fmt: skip
    if proofs:
        from busbw.doctor.prove_text import proofs_json

        said["proofs"] = proofs_json(proofs)
    return said
