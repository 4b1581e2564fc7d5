"""Which found signatures tell of what is over: the job went on after it, began again, or had ended well before."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from busbw.doctor.finding import Severity
from busbw.doctor.lines.hit import Hit
from busbw.doctor.lines.life import THROWN
from busbw.doctor.lines.moments import DAY_S
from busbw.doctor.lines.scanned import Scan
from busbw.doctor.signature import Signature, Stage
from busbw.doctor.signatures import SIGNATURES

Found = Sequence[tuple[str, Hit]]
UNTIL_BEGUN = frozenset(
    {"dns", "master-unreachable", "rendezvous-timeout", "numa-binding-denied", "ports-exhausted", "rank-variables"}
)
"""What no longer holds when every rank begins to make a communicator, or a step ends: all met at rank 0's store."""
_AT_THE_END = frozenset(
    {"remote-error", "store-lost", "proxy-failure", "killed-by-launcher", "heartbeat-lost", "mpi-network", "ib-flush"}
    | {
        "connection-refused",
        "connection-timeout",
        "socket-failed",
        "nccl-internal",
        "gpu-cleanup",
        "job-cancelled",
        "gloo-error",
    }
)
"""What those say that are left while a job's processes end one after the other."""
_RETURNS = frozenset(
    {"ib-port-down", "ib-async", "nvlink-error", "node-lost", "fabric-degraded", "nic-hang"}
    | {"bond-no-partner", "file-system-stall"}
)
"""What may come back: a link, a port, a host, a server of files."""
_STAYS = frozenset({"tcpx-nics", "fabric-not-joined"})
"""What a job goes on after by a slower way: a NIC or tray that is missing is so until it is added."""
_OF_A_PROGRAM = frozenset({"gpu-exception"})
"""What the driver says of a program that went wrong on a GPU that is sound."""
_OF_JOBS = ("nccl", "torch", "headers")
"""Kinds of lines by which a log is known as that of a job, and not of a host, a switch or a service."""
_ENDED_ON_PURPOSE = frozenset({"job-cancelled", "killed-by-launcher", "process-killed", "node-lost"})
"""What is said of a job that was told to go."""
_OF_PODS = frozenset({"container-start", "slurm-resources", "kubernetes-event", "pod-missing", "file-system", "dns"})
"""What events of a pod tell before its container starts."""
_MOST_ONCE = 2
"""Losses of a link that came back, beside a listing in which it works: more often it flaps."""
_BY_LIMIT = re.compile(r"CANCELLED|LIMIT|LSF|PBS|TERM_|deadline|evict", re.IGNORECASE)


@dataclass(frozen=True)
class _Job:
    """What one log tells of its job, by lines: the last sign of life, its course, all ranks' begin of an init."""

    scan: Scan
    is_whole: bool
    begun: int
    fatal: int
    """The last line of what ends jobs."""

    @property
    def alive(self) -> int:
        """The last sign of life; 0 where an init remained open."""
        return self.scan.alive if self.is_whole else 0

    @property
    def works_until(self) -> int:
        """The last line by which the job shows that it goes on, or ended as it should."""
        return max(self.alive, self.scan.ended) if self.is_whole else 0

    @property
    def took_steps(self) -> bool:
        """Whether more shows that it goes on than the end of an init."""
        return bool(self.scan.course.beats or self.scan.kinds["steps"] or self.scan.kinds["rows"])

    def began_again(self, line: int) -> bool:
        """Whether after that line the job began again, and came to an end or went on."""
        return line < self.scan.course.again < max(self.scan.alive, self.scan.course.done)

    def ended_well(self, line: int) -> bool:
        """Whether after that line those who watch the whole job say that all of it succeeded, and it had gone on."""
        course = self.scan.course
        if line < course.checked:
            return True
        if self.began_again(line):
            return line < course.done
        if line < min(course.said, course.succeeded) and self.fatal < max(course.said, course.succeeded):
            return True  # its own words and those of who started it
        return line < self.scan.alive and line < course.succeeded

    def went_through(self, hit: Hit) -> bool:
        """Whether its one program took steps after that, and did its work, with nothing fatal behind that end."""
        course = self.scan.course
        return not hit.who and hit.last < min(self.scan.alive, course.whole) and self.fatal < course.whole

    def came_back_later(self, hit: Hit, jobs: Iterable[_Job]) -> bool:
        """Whether another log tells that the job began again, and later than that did its work."""
        return any(
            other.scan.course.again
            and other.scan.course.done_at is not None
            and other.fatal < other.scan.course.done
            and (hit.when < other.scan.course.done_at if hit.when is not None else not self.scan.alive)
            for other in jobs
            if other is not self
        )

    def came_at_another_try(self, hit: Hit) -> bool:
        """Whether something was tried again behind each line with it, and the job went on, or did its work."""
        lines = [line for line, _ in hit.lines]
        went_on = hit.last < max(self.scan.alive, self.scan.course.done) or not self.scan.retried[0]
        return went_on and all(map(self.scan.course.tried_again, {*lines, hit.last}))

    def had_ended(self, line: int) -> bool:
        """Whether before that line the job's work was done, and nothing of it came after."""
        return self.scan.course.had_ended(self.scan.alive, line)

    def was_put_off(self, hit: Hit) -> bool:
        """Whether somebody pressed Ctrl-C when the work was done: the program only waited for that."""
        return bool(hit.lines) and self.scan.course.by_hand > 0 and self.had_ended(hit.lines[0][0])

    def left(self, hit: Hit) -> bool:
        """Whether the job was told to go, saved its state and went: limits of a scheduler are more than that."""
        course = self.scan.course
        told = 0 < course.noticed <= course.prepared and hit.lines and course.noticed <= hit.lines[0][0]
        return bool(told) and not any(_BY_LIMIT.search(text) for _, text in hit.lines)

    def came_back(self, hit: Hit) -> bool:
        """Whether the job began again after it was ended, and went on after a Ctrl-C, or to its good end.

        A scheduler's list of the job's runs names the first end once more, behind all of them.
        """
        course = self.scan.course
        again, last = course.again, max(self.scan.alive, course.done)
        if not hit.lines or not hit.lines[0][0] < again < last:
            return False
        return (course.by_hand > 0 and hit.last < again) or hit.last < course.succeeded

    def was_checked_without_job(self) -> bool:
        """Whether it is the log of a machine that passed its checks, and of no job."""
        return self.scan.course.checked > 0 and not any(self.scan.kinds[each] for each in _OF_JOBS)

    def has_it_back(self, hit: Hit) -> bool:
        """Whether what was lost came back after that, and the job went on; or that was more than a day ago."""
        line, newest = hit.last, self.scan.newest
        # Each rank beside a port tells of the same loss.
        times = hit.count - max(len(hit.who) - 1, 0)
        if line <= self.scan.course.back and line < self.scan.course.works and times <= _MOST_ONCE:
            return True  # a listing shows that it is up since
        if hit.until is not None and newest is not None and newest - hit.until > DAY_S:
            return line <= self.scan.course.back
        return line <= self.scan.course.back and line < max(self.works_until, self.scan.course.done)


def survivors(
    merged: Mapping[str, Found],
    scans: Sequence[Scan],
    whole: Collection[str],
    begun: Mapping[str, int],
    light: Collection[str] = (),
) -> set[str]:
    """The signatures that tell of what is over.

    `whole` are the logs in which no rank's init remained open; `begun` says in which line of a log all ranks had begun
    an init; `light` are the signatures that tell of no fault.
    """
    fatal = {
        source: max(hit.last for name, found in merged.items() if _ends_a_job(SIGNATURES[name]) for at, hit in found
                    if at == source)
        for source in {at for name, found in merged.items() if _ends_a_job(SIGNATURES[name]) for at, _ in found}
    }  # fmt: skip
    jobs = {
        each.source: _Job(each, each.source in whole, begun.get(each.source, 0), fatal.get(each.source, 0))
        for each in scans
    }
    over = {name for name, found in merged.items() if _is_over(SIGNATURES[name], found, jobs)}
    soft = {name for name, found in merged.items() if SIGNATURES[name].soft and _passed(name, found, jobs)}
    # Whatever the job failed of later, it was not what had kept ranks apart before.
    met = {name for name, found in merged.items() if name in UNTIL_BEGUN and _met_after(found, jobs)}
    survived = {name for name, found in merged.items() if _survived(SIGNATURES[name], found, jobs)}
    # A call that failed by what the job went on after is told in the same lines.
    same = {
        name
        for name, found in merged.items()
        if _ends_a_job(SIGNATURES[name]) and any(_same(found, merged[each]) for each in survived)
    }
    # The kernel tidies up behind a program that somebody ended, in a log of its own.
    if not (survived | over | soft).isdisjoint({"job-cancelled", "killed-by-launcher"}):
        same |= {"gpu-cleanup"} & merged.keys()
    ends = [name for name in merged if name not in light and _ends_a_job(SIGNATURES[name])]
    if any(name not in soft | over | same for name in ends):
        return met | (over & _RETURNS)
    return met | over | soft | survived | same


def _same(found: Found, others: Found) -> bool:
    """Whether both are the same lines of the same logs."""
    return found is others or [(source, hit.count, hit.lines) for source, hit in found] == [
        (source, hit.count, hit.lines) for source, hit in others
    ]


def _ends_a_job(signature: Signature) -> bool:
    return signature.stage >= Stage.CRASH and signature.severity is not Severity.NOTE


def _is_over(signature: Signature, found: Found, jobs: Mapping[str, _Job]) -> bool:
    """Whether it cannot be what ended the job, though such things do end jobs."""
    if signature.name in _RETURNS and all(
        jobs[source].has_it_back(hit) or (_is_of_boot(hit) and hit.last < jobs[source].scan.course.back)
        for source, hit in found
    ):
        return not any("xid" in dict(each) for _, hit in found for each in hit.groups)
    if signature.name in _AT_THE_END and all(
        (jobs[source].had_ended(hit.lines[0][0]) and not _is_thrown(hit)) or jobs[source].ended_well(hit.last)
        for source, hit in found
        if hit.lines
    ):
        return True
    if signature.name in _ENDED_ON_PURPOSE and all(
        jobs[source].left(hit) or jobs[source].came_back(hit) or jobs[source].was_put_off(hit) for source, hit in found
    ):
        return True
    if all(_is_of_ready_pods(hit, jobs[source].scan.course.ready) for source, hit in found) or (
        signature.name in _OF_PODS and all(_is_of_start(hit, jobs[source].scan.course.started) for source, hit in found)
    ):
        return True
    if (
        _is_old(signature, found, jobs)
        or (all(_is_of_test(hit, jobs[source].scan.course.checked) for source, hit in found))
        or (signature.name in _OF_A_PROGRAM and all(jobs[source].was_checked_without_job() for source, _ in found))
    ):
        return True
    fatal = signature.severity is Severity.ERROR and signature.stage > Stage.DRIVER
    return fatal and all(
        jobs[source].came_back_later(hit, jobs.values())
        or jobs[source].ended_well(hit.last)
        or jobs[source].went_through(hit)
        or jobs[source].came_at_another_try(hit)
        or _is_of_trial(signature, hit, jobs[source].scan.course.succeeded)
        for source, hit in found
    )


def _is_old(signature: Signature, found: Found, jobs: Mapping[str, _Job]) -> bool:
    """Whether all lines are of days before, in a log whose job went on or ended well. Hardware stays broken."""
    if signature.stage <= Stage.DRIVER:
        return False
    course = [each.scan.course for each in jobs.values()]
    if all(hit.aged == hit.count for _, hit in found):
        return any(each.started or each.young for each in course) or any(each.works_until for each in jobs.values())
    newest = max((each.scan.newest for each in jobs.values() if each.scan.newest is not None), default=0.0)
    return all(
        hit.dated == hit.count and hit.until is not None and newest - hit.until > DAY_S for _, hit in found
    ) and any(each.works_until and (each.scan.course.done or each.scan.kinds["ends"]) for each in jobs.values())


def _is_of_trial(signature: Signature, hit: Hit, succeeded: int) -> bool:
    """Whether a program found that a size has no room, and ended as it should: nothing was thrown by that."""
    return signature.name == "gpu-memory-full" and hit.last < succeeded and not _is_thrown(hit)


_UNTESTED = re.compile(
    r"NVRM|kernel|\bmce\b|pcieport|dmesg|\W{0,2}\[ {0,6}\d{1,8}\.\d{3,9}\]"
    # Docker refuses, and apt-key's "OK" below it is no test's.
    r"|could not select device driver"
)
"""What no test provokes."""


def _is_of_test(hit: Hit, checked: int) -> bool:
    """Whether tests that all passed said it, and not the kernel: broken hardware is broken beside them, too."""
    shown = hit.count == len(hit.lines)
    return shown and hit.last < checked and not any(_UNTESTED.search(text) for _, text in hit.lines)


_EVENT = re.compile(r"\s{0,12}Warning\s{1,8}[A-Z]\w{3,40}\s")


_OF_POD = re.compile(
    r"\s{0,12}(?:\S{2,10}\s{1,12})?(?:Warning|Normal)\s{1,40}[A-Z]\w{3,40}\s{1,40}(?:pod|node)/(?P<name>[\w.-]{3,100})\s"
)


def _is_of_ready_pods(hit: Hit, ready: Collection[str]) -> bool:
    """Whether all of it are events of pods and nodes that are listed as ready."""
    pods = [_OF_POD.match(text) for _, text in hit.lines]
    return hit.count == len(hit.lines) and all(each is not None and each["name"] in ready for each in pods)


def _is_of_start(hit: Hit, started: int) -> bool:
    """Whether all of it are events of a pod before the line in which its container started."""
    return hit.last < started and hit.count == len(hit.lines) and all(_EVENT.match(text) for _, text in hit.lines)


_EARLY = re.compile(r"\W{0,2}\[ {0,6}\d{1,3}\.\d{3,9}\] ")


def _is_of_boot(hit: Hit) -> bool:
    """Whether the kernel says all of it while the machine starts."""
    return hit.count == len(hit.lines) and all(_EARLY.match(text) for _, text in hit.lines)


def _survived(signature: Signature, found: Found, jobs: Mapping[str, _Job]) -> bool:
    """Whether the job went on after it: then it cannot be what ended or stopped it. Broken hardware stays broken."""
    fatal = signature.severity is Severity.ERROR and Stage.DRIVER < signature.stage < Stage.CRASH
    return fatal and signature.name not in _STAYS and all(hit.last < jobs[source].works_until for source, hit in found)


def _met_after(found: Found, jobs: Mapping[str, _Job]) -> bool:
    """Whether the ranks met behind the last line with it."""
    return all(hit.last < max(jobs[source].begun, jobs[source].alive) for source, hit in found)


_TOLD_ABOVE = "stands-still"
"""What somebody says of a whole log, often above it: that an init ended below is no step of the job."""


def _passed(name: str, found: Found, jobs: Mapping[str, _Job]) -> bool:
    """Whether each log went on after it, or says that its job ended as it should."""
    return all(
        (jobs[source].scan.ended and not _is_thrown(hit))
        or (hit.last < jobs[source].alive and (name != _TOLD_ABOVE or jobs[source].took_steps))
        for source, hit in found
    )


def _is_thrown(hit: Hit) -> bool:
    """Whether a program ended with it: an exception is more than what is said of connections at an end."""
    return any(THROWN.search(text) for _, text in hit.lines)
