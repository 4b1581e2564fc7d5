"""Runs every examination of the list over the facts; worst findings first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from busbw.base.secrets import hidden
from busbw.doctor.alike import told_once
from busbw.doctor.clues.how_it_ended import with_end
from busbw.doctor.clues.init_sequels import with_init_sequels
from busbw.doctor.clues.launch.interceptors import with_interceptors
from busbw.doctor.clues.launch.restarts import with_restarts
from busbw.doctor.clues.launch.time_over import with_time_over
from busbw.doctor.clues.machine.held_down import with_held_down
from busbw.doctor.clues.machine.power import with_power
from busbw.doctor.clues.machine.power_brake import with_brake
from busbw.doctor.clues.network.listed_only import without_listed
from busbw.doctor.clues.network.losses import with_losses
from busbw.doctor.clues.network.one_host import on_one_host
from busbw.doctor.clues.program.after_restart import with_meeting_through
from busbw.doctor.clues.program.all_alike import with_all_alike, without_open
from busbw.doctor.clues.program.said_alone import with_said_alone
from busbw.doctor.clues.releases.known_bugs import with_lost_tail
from busbw.doctor.clues.releases.lost_files import with_lost_files
from busbw.doctor.clues.sequels import with_sequels
from busbw.doctor.clues.sharpen import with_clues
from busbw.doctor.clues.together import with_left_out, with_loader, with_lock, with_others
from busbw.doctor.clues.unneeded import without_unneeded
from busbw.doctor.clues.waited_for import with_work
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.findings import FINDINGS
from busbw.doctor.findings.figures import below_expected, more_gpus_slower, once_faster, slow_host, steps_slower
from busbw.doctor.findings.machine import flat_topology, gpu_missing, nvlinks_down, pcie_link
from busbw.doctor.findings.network import mtu_path, nic_far, nic_missing, port_speeds
from busbw.doctor.findings.ranks import init_incomplete, nccl_warnings
from busbw.doctor.findings.settings import setting_breaks, settings_differ, suspect_setting
from busbw.doctor.gpu_age import with_age
from busbw.doctor.meanings.acts import with_act
from busbw.doctor.meanings.advice import with_advice
from busbw.doctor.meanings.codes import with_code
from busbw.doctor.meanings.particulars import with_particular
from busbw.doctor.meanings.places import with_place
from busbw.doctor.meanings.topics import guessed
from busbw.doctor.meanings.writers import with_writer
from busbw.doctor.recognise import recognise
from busbw.doctor.shown_texts import texts_of
from busbw.doctor.signature import Stage
from busbw.doctor.whose import homes_of


def examine(facts: Facts) -> tuple[Finding, ...]:
    """Every finding; within a severity causes before effects, then the dearest first, then in the order of the list."""
    facts = without_listed(facts)
    found = [finding for examination in FINDINGS.values() for finding in examination(facts)]
    for each in facts.snapshot.others:
        alone = replace(facts.snapshot, machine=each, gpus=(), listed_gpus=None, others=())
        found += _of_machine(replace(facts, snapshot=alone, machine=each, logs=()))
    found += recognise(
        facts.scans, one_node=_on_one_node(facts), whole=_whole(facts), begun=_begun(facts), homes=homes_of(facts)
    )
    if (guess := guessed(facts.scans, found)) is not None:
        # What a program said before its launcher ended it stands before the init that did not end of it.
        found = [replace(each, stage=Stage.FAILURE) if each.name == init_incomplete.NAME else each for each in found]
        found.append(guess)
    found = setting_breaks.with_effects(settings_differ.with_effects(found))
    found = with_left_out(_failed_in_init(_without_lost_pings(_without_doubles(found))))
    found = with_advice(with_others(list(map(_told, _with_warnings(found))), facts), facts.scans)
    found = with_losses(with_loader(with_work(with_lock(found), facts.scans, facts.shown)), facts)
    found = with_all_alike(found, facts)
    met = with_meeting_through(found, facts)
    found = with_init_sequels(with_sequels(with_clues(_with_slowdowns(with_restarts(met, facts), facts), facts)))
    found = with_said_alone(with_interceptors(with_lost_tail(found, facts), facts), facts)
    found = with_time_over(with_age(without_unneeded(with_lost_files(found, facts), facts), facts))
    found = with_end(without_open(found), facts)
    found = told_once(_with_causes([with_writer(with_place(each)) for each in found]))
    # Evidence quotes logs and settings of others.
    return tuple(
        sorted(map(hidden, found), key=lambda each: (each.severity.rank, each.stage, -(each.cost.factor or 0.0)))
    )


def _with_slowdowns(findings: list[Finding], facts: Facts) -> list[Finding]:
    """The findings; that of GPUs slowed down tells by what, the power supply's word last, as it decides."""
    return with_brake(with_power(with_held_down(findings, facts), facts), facts)


def _of_machine(facts: Facts) -> list[Finding]:
    """What is found of a machine by its links alone, as of a further one in the same paste."""
    return [
        finding
        for module in (nvlinks_down, pcie_link, gpu_missing, flat_topology, nic_far, nic_missing, port_speeds)
        for finding in module.examine(facts)
    ]


def _on_one_node(facts: Facts) -> bool:
    """Whether the job ran on one node, or would have: what counts between nodes did nothing to it."""
    return facts.ran_on_one_node or on_one_host(facts, texts_of(facts)) is not None


def _whole(facts: Facts) -> frozenset[str]:
    """The logs that show no init that did not end: those without a line of NCCL may show progress too."""
    return frozenset(
        log.source for log in facts.logs if all(place.complete for each in log.communicators for place in each.ranks)
    )


def _begun(facts: Facts) -> dict[str, int]:
    """By log, the line in which the last rank of a communicator began: until then all had found rank 0's store."""
    return {
        log.source: max(place.line for place in each.ranks)
        for log in facts.logs
        for each in log.communicators
        if each.ranks and len(each.ranks) == each.nranks
    }


_SEQUELS = frozenset({"nccl-error", "nccl-last-error"})
"""What a program says of a call of NCCL that failed: NCCL's own warning, known or not, tells more."""
_ENDS = frozenset({"killed-by-launcher", "process-crashed"})
"""What is said when something ended: a warning of NCCL beside nothing but these is nearer to the cause."""


def _with_warnings(findings: list[Finding]) -> list[Finding]:
    """Where a call failed, a warning that no signature knows is the reason as far as the log tells it."""
    said = {each.name for each in findings if each.severity is not Severity.NOTE}
    others = said - {nccl_warnings.NAME}
    alone = bool(others) and (others <= _ENDS or _precede(findings))
    if nccl_warnings.NAME not in said or not (said & _SEQUELS or alone):
        return findings
    return [
        replace(each, severity=Severity.ERROR)
        if each.name == nccl_warnings.NAME
        else replace(each, severity=Severity.NOTE, title=f"follows from {nccl_warnings.NAME}: {each.title}")
        if each.name in _SEQUELS
        else each
        for each in findings
    ]


def _precede(findings: list[Finding]) -> bool:
    """Whether warnings stand before all that is found beside them, which only tells of effects."""
    loud = [each for each in findings if each.severity is not Severity.NOTE]
    effects = [each for each in loud if each.name not in {nccl_warnings.NAME, *_ENDS}]
    if any(each.stage < Stage.EFFECT for each in effects):
        return False
    warned = [each.evidence[0] for each in loud if each.name == nccl_warnings.NAME]
    lines = [seen.line for each in effects for seen in each.evidence if seen.line]
    return bool(warned and lines) and min(each.line or 0 for each in warned) < min(lines)


_OF_RUNTIMES = "container-start"


def _told(finding: Finding) -> Finding:
    """The finding in the words of what its evidence names, or with what a code in it means."""
    told = with_particular(finding)
    if told is not finding:
        coded = with_code(finding)
        how = coded.title[len(finding.title) :]
        if finding.name != _OF_RUNTIMES or not how:
            return told
        # Runtimes say what they did, and the system's code how that failed: both are needed.
        return replace(told, title=told.title + how, fix=f"{told.fix}. Also: {coded.fix.partition('. Also:')[0]}")
    return with_act(finding, with_code(finding))


def _without_doubles(findings: list[Finding]) -> list[Finding]:
    """Without the suspicion of a setting of which another finding tells what it does."""
    told = {
        each.title.partition("=")[0]
        for each in findings
        if each.severity is not Severity.NOTE and each.name != suspect_setting.NAME
    }
    return [each for each in findings if each.name != suspect_setting.NAME or each.title.partition("=")[0] not in told]


def _without_lost_pings(findings: list[Finding]) -> list[Finding]:
    """Where only large packets are lost, the lines of ping that say so are not of a route that is missing."""
    if not any(each.name == mtu_path.NAME for each in findings):
        return findings
    kept = [each for each in findings if each.name != "no-route" or not _of_pings(each)]
    if len(kept) == len(findings):
        return kept
    of_route, of_size = "follows from no-route: ", f"follows from {mtu_path.NAME}: "
    return [replace(each, title=each.title.replace(of_route, of_size)) for each in kept]


def _of_pings(finding: Finding) -> bool:
    return all(mtu_path.LOST in seen.fact for seen in finding.evidence if seen.line)


def _failed_in_init(findings: list[Finding]) -> list[Finding]:
    """An init that a call of NCCL ended did not wait: what NCCL warned of stands before that it did not end."""
    warned = any(
        each.severity is Severity.WARNING
        and each.stage < Stage.FAILURE
        and any("NCCL WARN" in seen.fact for seen in each.evidence)
        for each in findings
    )
    if not warned or not any(each.name in _SEQUELS for each in findings):
        return findings
    return [
        replace(each, severity=Severity.WARNING)
        if each.name == init_incomplete.NAME and each.severity is Severity.ERROR
        else each
        for each in findings
    ]


_LOSSES = frozenset({below_expected.NAME, once_faster.NAME, more_gpus_slower.NAME, steps_slower.NAME, slow_host.NAME})
"""What says how much slower it went, and not why."""


def _with_causes(findings: list[Finding]) -> list[Finding]:
    """A loss of bandwidth names the first finding that explains it."""
    causes = [
        each
        for each in findings
        if each.severity is not Severity.NOTE and each.stage < Stage.EFFECT and each.name not in _LOSSES
    ]
    if not causes:
        return findings
    first = min(causes, key=lambda each: (each.severity.rank, each.stage, -(each.cost.factor or 0.0)))
    return [
        replace(each, fix=f"mend {first.name} first: {first.fix}") if each.name in _LOSSES else each
        for each in findings
    ]


def worst(findings: Iterable[Finding]) -> Severity | None:
    """The worst severity; None without findings."""
    return min((each.severity for each in findings), key=lambda each: each.rank, default=None)
