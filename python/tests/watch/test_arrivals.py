"""Calls of all ranks side by side: clocks are aligned, wait is told from transfer, and late ranks from noise."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from made_recordings import Made, Row, write

from busbw.watch import arrivals, following, live
from busbw.watch.arrivals import Arrivals, Meeting, Seen
from busbw.watch.following import Watching, Wishes
from busbw.watch.late import Late, Stragglers
from busbw.watch.live import Follower, Watcher
from busbw.watch.recording import Header, Recording, find
from busbw.watch.summary import summarise, who_waits
from busbw.watch.table import Window, draw

US = 1000


def job(
    folder: Path,
    ranks: int,
    steps: int,
    late: Callable[[int, int], int],
    *,
    hosts: int = 1,
    skew_ns: Sequence[int] = (0,),
    drift: Sequence[float] = (0.0,),
    synchronous: bool = True,
    jump: tuple[int, int] = (0, 0),
) -> None:
    """Recordings of a job whose rank r comes `late(r, step)` ns after the work of a step; each host has its clock.

    `jump`: the last host's clock steps by so much at that step.
    """
    now, begun, ended = 0, [[0] * steps for _ in range(ranks)], [0] * steps
    for step in range(steps):
        for rank in range(ranks):
            begun[rank][step] = now + 500 * US + late(rank, step)
        now = ended[step] = max(each[step] for each in begun) + 20 * US
    for rank in range(ranks):
        host = rank * hosts // ranks

        def clock(true: int, host: int = host) -> int:
            jumped = jump[0] if host == hosts - 1 and true > jump[1] * 540 * US else 0
            return true + round(true * drift[host % len(drift)]) + jumped

        calls = [Made(clock(begun[rank][n]), clock(ended[n] + rank * US) - clock(begun[rank][n])) for n in range(steps)]
        write(folder, rank, [Row(rank, ranks)], calls, host=f"node{host}", boot=host + 1, synchronous=synchronous,
              monotonic_ns=10**12 + skew_ns[host % len(skew_ns)])  # fmt: skip


def followed(folder: Path) -> tuple[Follower, list[Meeting]]:
    recordings = [Recording(path) for path in find(folder)]
    meetings: list[Meeting] = []
    arrivals = Arrivals()
    while found := list(arrivals.look(recordings)):
        meetings += [each for each in found if isinstance(each, Meeting)]
    follower = Follower(newest=None)
    follower.read_all(recordings)
    for each in recordings:
        each.close()
    return follower, meetings


def test_wait_and_transfer_are_told_apart(tmp_path: Path) -> None:
    job(tmp_path, 4, 10, lambda rank, step: 300 * US if rank == 2 else 0)
    follower, meetings = followed(tmp_path)
    assert len(meetings) == 10
    for meeting in meetings:
        assert meeting.last.rank == 2
        assert meeting.waited_ns == pytest.approx(3 * 300 * US, abs=1000)
        assert meeting.transfer_ns == pytest.approx(20 * US, abs=1000)
        assert meeting.error_ns == 0
    text = who_waits(follower.stragglers, follower.lates)
    assert "rank 2 (node0, pid 1002) 100.0 % 300.0" in " ".join(text.split())
    assert "10 collectives with all ranks; of the time in them, wait 92 %, transfer 8 %" in text


@pytest.mark.parametrize("skew_ms", [0, 3, -40_000])
def test_clocks_of_hosts_are_aligned_by_the_collectives(tmp_path: Path, skew_ms: int) -> None:
    noise = random.Random(3)
    job(tmp_path, 4, 400, lambda rank, step: noise.randrange(60 * US) + (400 * US if rank == 3 and step >= 300 else 0),
        hosts=2, skew_ns=(0, skew_ms * 1000 * US), drift=(0.0, 20e-6))  # fmt: skip
    follower, meetings = followed(tmp_path)
    assert [late.rank for late in follower.lates] == [3]
    assert 301 <= follower.lates[0].at <= 306
    errors = [meeting.error_ns for meeting in meetings if meeting.error_ns is not None]
    assert max(errors[50:]) < 60 * US
    for meeting in meetings[320:]:
        assert meeting.error_ns is not None
        late = meeting.last.begun_ns - min(each.begun_ns for each in meeting.arrivals)
        assert abs(late - 430 * US) <= 45 * US + meeting.error_ns
    assert "clocks of hosts within" in who_waits(follower.stragglers, follower.lates)


@pytest.mark.parametrize("ms", [5, -5, 0.3, -0.3])
def test_a_clock_that_steps_accuses_nobody_and_is_aligned_again(tmp_path: Path, ms: float) -> None:
    noise = random.Random(5)
    job(tmp_path, 4, 600, lambda rank, step: noise.randrange(40 * US) + (400 * US if rank == 3 and step >= 400 else 0),
        hosts=2, jump=(int(ms * 1000 * US), 200))  # fmt: skip
    follower, meetings = followed(tmp_path)
    assert [late.rank for late in follower.lates] == [3]
    assert 401 <= follower.lates[0].at <= 408
    for meeting in meetings[360:399]:
        late = meeting.last.begun_ns - min(each.begun_ns for each in meeting.arrivals)
        assert late <= 40 * US + (meeting.error_ns or 0)


@pytest.mark.parametrize("parts", [500e-6, -500e-6])
def test_a_clock_that_is_slewed_accuses_nobody(tmp_path: Path, parts: float) -> None:
    """As fast as NTP does it."""
    noise = random.Random(7)
    job(tmp_path, 4, 600, lambda rank, step: noise.randrange(40 * US), hosts=2, drift=(0.0, parts))
    assert followed(tmp_path)[0].lates == []


def test_of_three_hosts_the_errors_of_two_clocks_add_up(tmp_path: Path) -> None:
    job(tmp_path, 3, 50, lambda rank, step: 0, hosts=3, skew_ns=(0, 5 * US, 9 * US))
    meetings = followed(tmp_path)[1]
    assert {meeting.error_ns for meeting in meetings[5:]} == {
        sum(sorted(width_ns(tmp_path, host) // 2 for host in (1, 2)))
    }


def width_ns(folder: Path, host: int) -> int:
    """Of the bounds of a host's clock: from the calls themselves."""
    heads = {each.header().host: each for each in map(Recording, find(folder))}
    first, other = (list(heads[f"node{each}"].calls()) for each in (0, host))
    apart = heads[f"node{host}"].header().monotonic_ns - heads["node0"].header().monotonic_ns
    low = max(b.begun_ns + apart - a.begun_ns - (a.host_ns or 0) for a, b in zip(first, other, strict=True))
    high = min(b.begun_ns + apart + (b.host_ns or 0) - a.begun_ns for a, b in zip(first, other, strict=True))
    return high - low + 1


def test_without_bounds_on_the_clocks_nobody_is_accused(tmp_path: Path) -> None:
    job(tmp_path, 4, 100, lambda rank, step: 900 * US if rank == 1 else 0, hosts=2, synchronous=False)
    follower, meetings = followed(tmp_path)
    assert (len(meetings), follower.lates) == (100, [])
    assert all(meeting.error_ns is None and meeting.transfer_ns is None for meeting in meetings)
    assert "by the host's calls" in who_waits(follower.stragglers, follower.lates)


def test_of_many_late_ranks_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_LATES", 2)
    job(tmp_path, 4, 600, lambda rank, step: 900 * US if step > 150 and step % 100 < 40 and rank == 2 else 0)
    follower, _ = followed(tmp_path)
    assert len(follower.lates) == 2 and follower.lates[-1].at > 500


def test_on_one_host_too_calls_that_come_back_before_they_have_run_accuse_nobody(tmp_path: Path) -> None:
    job(tmp_path, 4, 300, lambda rank, step: 900 * US if rank == 1 and step > 200 else 0, synchronous=False)
    follower, meetings = followed(tmp_path)
    assert (len(meetings), follower.lates, follower.stragglers.unjudged) == (300, [], 300)


def test_who_is_late_by_less_than_the_clocks_may_be_apart_is_not_accused(tmp_path: Path) -> None:
    """Each call lets the clocks of two hosts be 300 us apart on either side."""
    stragglers = Stragglers()
    for number in range(1, 400):
        late = 350 * US if number > 300 else 0
        meeting = replace(meeting_of(number, [0, 0, late, 0]), error_ns=300 * US)
        assert stragglers.take(meeting) == []
    later = [replace(meeting_of(number, [0, 0, 900 * US, 0]), error_ns=300 * US) for number in range(400, 410)]
    assert [late.rank for each in later for late in stragglers.take(each)] == [2]


def test_injected_stragglers_are_named_within_three_steps_and_nobody_else(tmp_path: Path) -> None:
    chance = random.Random(11)
    spells = {(200 + 60 * n, chance.randrange(4), chance.randrange(200 * US, 900 * US)) for n in range(50)}
    injected = {(first + at, rank): late for first, rank, late in spells for at in range(6)}

    def late(rank: int, step: int) -> int:
        # A machine's noise: some tens of microseconds, and now and then milliseconds.
        usual = int(chance.expovariate(1 / (15 * US)))
        return (
            usual + injected.get((step + 1, rank), 0) + (chance.randrange(9000 * US) if chance.random() < 2e-4 else 0)
        )

    job(tmp_path, 4, 3300, late)
    follower, meetings = followed(tmp_path)
    assert len(meetings) == 3300
    named = {(each.rank, each.at) for each in follower.lates}
    soon = sum(any((rank, first + at) in named for at in range(3)) for first, rank, _ in spells)
    false = [each for each in follower.lates
             if not any(rank == each.rank and first <= each.at < first + 6 for first, rank, _ in spells)]  # fmt: skip
    assert false == []
    assert soon >= 48, "a spell may fall into a burst of the noise"


def test_noise_accuses_nobody() -> None:
    """10,000 calls whose four ranks are late by all sorts of amounts, independently."""
    chance = random.Random(5)
    stragglers = Stragglers()
    found: list[Late] = []
    for number in range(1, 10_001):
        arrivals = [int(chance.lognormvariate(10.0, 1.2)) for _ in range(4)]
        found += stragglers.take(meeting_of(number, arrivals))
    assert found == []


def meeting_of(number: int, begun: Sequence[int]) -> Meeting:
    from busbw.watch.arrivals import Arrival
    from busbw.watch.recording import Shape

    start = number * 10**7
    arrivals = tuple(
        Arrival(rank, f"rank {rank}", start + at, start + 10**6, 5 * 10**6) for rank, at in enumerate(begun)
    )
    return Meeting(7, number, Shape("all_reduce", 64, "float32", "sum", None), arrivals, 0, is_synchronous=True)


def test_a_straggler_that_recovers_is_named_again_when_it_falls_back() -> None:
    stragglers = Stragglers()
    named = []
    for number in range(1, 400):
        late = 300 * US if 100 <= number < 150 or number >= 300 else 0
        named += [each.at for each in stragglers.take(meeting_of(number, [0, 0, late, 0]))]
    assert len(named) == 2
    assert 102 <= named[0] <= 103
    assert 302 <= named[1] <= 303


def test_numbers_go_on_beyond_32_bits_and_lost_ranks_are_bounded(tmp_path: Path) -> None:
    top = (1 << 32) - 2
    for rank in range(2):
        calls = [Made(n * 10**6, sequence=(top + n) & 0xFFFFFFFF) for n in range(4)]
        write(tmp_path, rank, [Row(rank, 2)], calls)
    _, meetings = followed(tmp_path)
    assert [meeting.sequence for meeting in meetings] == [top, top + 1, top + 2, top + 3]


def test_calls_of_a_group_have_no_end_and_refused_or_captured_ones_meet_nobody(tmp_path: Path) -> None:
    for rank in range(2):
        calls = [Made(0, group=3), Made(10**6, flags=4), Made(2 * 10**6, flags=1), Made(3 * 10**6)]
        write(tmp_path, rank, [Row(rank, 2)], calls)
    found = [(each.sequence, each.is_synchronous, each.transfer_ns) for each in followed(tmp_path)[1]]
    assert [each[:2] for each in found] == [(1, False), (4, True)]
    assert found[0][2] is None and found[1][2] is not None


def test_collectives_that_a_rank_never_made_are_given_up_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "MAX_PENDING", 8)
    write(tmp_path, 0, [Row(0, 2)], [Made(n * 10**6) for n in range(20)])
    found = Arrivals()
    assert len(list(found.look([Recording(path) for path in find(tmp_path)]))) == 20
    assert (found.given_up, len(found._pending)) == (12, 8)


def test_a_call_whose_times_cannot_be_takes_no_clock_away(tmp_path: Path) -> None:
    """It ended on one rank before the last one of another host began."""
    job(tmp_path, 4, 50, lambda rank, step: (100, 0, 0, 90)[rank] * US, hosts=2)
    path = find(tmp_path)[1]
    with path.open("r+b") as file:  # the length of call 31
        file.seek(8192 + 30 * 32 + 30)
        file.write(b"\x01\x00")
    errors = [meeting.error_ns for meeting in followed(tmp_path)[1]]
    assert len(errors) == 50 and None not in errors


def test_the_table_says_what_is_called_how_fast_and_who_comes_last(tmp_path: Path) -> None:
    job(tmp_path, 4, 100, lambda rank, step: 200 * US if rank == 1 else 0)
    window = Window()
    recordings = [Recording(path) for path in find(tmp_path)]
    for each in Arrivals().look(recordings):
        if isinstance(each, Seen):
            window.see(each)
        else:
            window.meet(each)
    lines = draw(window, 0.1, calls=400, total=5000, width=200)
    assert lines[0] == "busbw watch: 5,000 calls, 4,000/s in 4 processes"
    words = lines[2].split()
    assert words[:5] == ["all_reduce", "<=", "1", "KiB", "4,000"]
    assert float(words[5]) == pytest.approx(100 * 1024 / 0.1 / 1e9, rel=0.01)
    assert "last most often: rank 1 (node0, pid 1001), in 100 of 100 collectives, 200 us after the median" in lines[3]
    assert "50 % of them looked at" in draw(window, 0.1, calls=800, total=5000)[0]
    assert all(len(line) < 40 for line in draw(window, 0.1, calls=800, total=5000, width=40))
    assert draw(Window(), 1.0, calls=0, total=0) == ["busbw watch: 0 calls, 0/s in 0 processes"]


def test_a_small_terminal_shows_the_busiest_rows_and_who_comes_last(tmp_path: Path) -> None:
    for rank in range(4):
        sizes = [Made(n * US, count=1 << n, kind="all_reduce") for n in range(20)]
        write(tmp_path, rank, [Row(rank, 4)], sizes)
    window = Window()
    for each in Arrivals().look([Recording(path) for path in find(tmp_path)]):
        window.see(each) if isinstance(each, Seen) else window.meet(each)
    lines = draw(window, 0.1, calls=80, total=80, width=50, height=12)
    assert len(lines) <= 12 and all(len(line) < 50 for line in lines)
    assert lines[1].split() == ["collective", "size", "calls/s", "share", "host", "us"]
    who = next(at for at, line in enumerate(lines) if line.startswith("last most often: rank"))
    assert "further classes" in lines[who - 1]
    assert "transfer" in " ".join(lines[who + 1 :]), "a sentence goes on in the next line"
    assert draw(window, 0.1, calls=80, total=80, width=40, height=12)[1].split()[-1] == "share"
    assert "GB/s" in draw(window, 0.1, calls=80, total=80, width=100, height=12)[1]


def test_a_look_while_the_job_runs_reads_the_newest_calls_only(tmp_path: Path) -> None:
    job(tmp_path, 2, 3000, lambda rank, step: 0)
    recordings = [Recording(path) for path in find(tmp_path)]
    follower = Follower(newest=200)
    follower.look(recordings)
    assert follower.arrivals.skipped == 2 * 2900
    assert follower.stragglers.meetings == 100


class Growing(Recording):
    """A recording whose process goes on calling: all of a job have come ten calls further whenever one is asked."""

    now = 1000

    def header(self) -> Header:
        head = super().header()
        Growing.now += 10
        return replace(head, calls=min(head.calls, Growing.now))


def test_the_newest_calls_of_many_processes_are_bounded_together_and_are_the_same_calls(tmp_path: Path) -> None:
    """64 processes cost a look no more than four do; and what is read first and last has collectives in common."""
    job(tmp_path, 4, 2000, lambda rank, step: 0)
    recordings = [Growing(path) for path in find(tmp_path)]
    Growing.now = 1000
    arrivals = Arrivals(newest=400)
    found = list(arrivals.look(recordings))
    assert sum(isinstance(each, Seen) for each in found) == 400
    assert sum(isinstance(each, Meeting) for each in found) >= 60


def test_a_summary_of_damaged_numbers_is_bounded(tmp_path: Path) -> None:
    path = write(tmp_path, 0, [Row(0xFFFFFFFB, 1 << 30)], [Made(0)] * 3)
    follower, meetings = followed(tmp_path)
    assert (meetings, who_waits(follower.stragglers, follower.lates)) == ([], "")
    assert "3 calls" in summarise([path]).text()


def test_following_the_calls_takes_a_tenth_of_a_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The looks at progress go on as often as before, so that a hang is seen in time."""
    job(tmp_path, 2, 10, lambda rank, step: 0)
    now, polls, looks = [100.0], [0], [0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "thread_time", lambda: looks[0] / 32)

    def look(*_: object) -> list[Late]:
        looks[0] += 1
        return []

    def poll(*_: object) -> None:
        polls[0] += 1

    monkeypatch.setattr(Follower, "look", look)
    monkeypatch.setattr(Watcher, "poll", poll)
    watching = Watching(Wishes(), Watcher(tmp_path))
    for _ in range(100):
        now[0] += 0.125
        watching.look()
    # Each takes 31 ms, so that the next is not within 313 ms: every third time.
    assert (polls[0], looks[0]) == (100, 34)


@pytest.mark.parametrize(("share", "says"), [(0.4, True), (0.001, False)])
def test_a_late_rank_that_had_no_processor_is_said_to_be_late_by_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], share: float, says: bool
) -> None:
    job(tmp_path, 4, 200, lambda rank, step: 300 * US if rank == 2 and step > 150 else 0)
    now = [100 * 10**9]
    monkeypatch.setattr(following, "monotonic_ns", lambda: now[0])
    monkeypatch.setattr(following, "is_here", lambda head: True)
    monkeypatch.setattr(following, "waited_ns", lambda pid: int((now[0] - 10**9) * share) if pid == 1002 else 0)
    monkeypatch.setattr(Watcher, "poll", lambda *_: None)
    watcher = Watcher(tmp_path)
    watching = Watching(Wishes(), watcher)
    watcher.look_once_more()
    with monkeypatch.context() as before:
        # A look before the calls came, which takes stock of the processes.
        before.setattr(Follower, "look", lambda *_: [])
        watching.look()
    now[0] += 2 * 10**9
    watching._next_follow = 0.0
    watching.look()
    lines = [line for line in capsys.readouterr().err.splitlines() if "is late" in line]
    assert len(lines) == 1
    assert "rank 2 (node0, pid 1002) is late" in lines[0]
    assert ("Meanwhile" in lines[0]) is says
    assert ("waited 40 % of the time for a processor" in lines[0]) is says
