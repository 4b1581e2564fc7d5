"""Who is measured against whom, in which environment, and how the time is shared out."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_library.budget import WEIGHTS, Deadline, share
from gpu_library.environment import MULTICAST_OFF, environment, preloaded
from gpu_library.machine import Machine
from gpu_library.peers import ACCELERATED, BANDS, OURS, OURS_IN_WINDOWS, contestants, libraries
from gpu_library.program import as_ranks
from gpu_library.session import Wanted, in_turn
from gpu_library.sizes import parse_size, within, words
from gpu_library.stages import build, check, cross, speed, stress, sweep


def machine(gpus=4, host=False, mscclpp=True):
    return Machine(
        build=Path("/b"), ours=Path("/b/lib/libbusbw_gpu.so"), nccl=Path("/w/libnccl.so.2"),
        mscclpp=Path("/m/libmscclpp_nccl.so") if mscclpp else None, nccl_tests=Path("/t"), gpus=gpus, host=host,
        python="python3",
    )  # fmt: skip


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_multicast_stays_off_whatever_the_caller_or_a_stage_says():
    given = environment({"NCCL_NVLS_ENABLE": "1"}, {"TORCH_SYMM_MEM_DISABLE_MULTICAST": "0"})
    assert {name: given[name] for name in MULTICAST_OFF} == MULTICAST_OFF
    assert set(MULTICAST_OFF) == {"NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS",
                                  "MSCCLPP_FORCE_DISABLE_NVLS"}  # fmt: skip


def test_what_decides_the_measurement_does_not_come_from_the_callers_shell():
    given = environment({"BUSBW_ALGORITHM": "nccl", "LD_PRELOAD": "/x.so", "PATH": "/bin"}, {})
    assert "BUSBW_ALGORITHM" not in given
    assert "LD_PRELOAD" not in given
    assert given["PATH"] == "/bin"


def test_ours_is_preloaded_with_the_real_nccl_behind_it():
    changes = preloaded(Path("/b/ours.so"), Path("/w/libnccl.so.2"), {"LD_LIBRARY_PATH": "/other"})
    assert changes == {"LD_PRELOAD": "/b/ours.so", "BUSBW_REAL_NCCL": "/w/libnccl.so.2", "LD_LIBRARY_PATH": "/w:/other"}


def test_every_table_has_ours_and_nccl_and_settings_stay_where_they_mean_something():
    for collective in ACCELERATED:
        for band in BANDS:
            names = [peer.name for peer in contestants(machine(), collective, band)]
            assert names[0] == OURS
            assert "NCCL" in names
            long = band.last > 16 << 20
            assert (OURS_IN_WINDOWS in names) == (long and collective in {"all_gather", "alltoall", "broadcast"})
            assert ("NCCL -R 2 -x 2" in names) == (band.graph_launches == 0)
            assert ("NCCL -R 2, no mixing" in names) == (band.graph_launches > 0)


def test_mscclpp_is_there_where_its_file_is_given():
    assert "MSCCL++" in [peer.name for peer in libraries(machine())]
    assert "MSCCL++" not in [peer.name for peer in libraries(machine(mscclpp=False))]


def test_the_engine_is_asked_for_graphs_repeated_sweeps_and_checked_results():
    from gpu_library.session import Session

    session = Session(machine(), Deadline(100), None, {}, Wanted(cycles=7))  # type: ignore[arg-type]
    table = next(t for t in speed.tables(machine(), Wanted()) if t.collective == "all_reduce")
    played = {player.name: player for player in speed.players(session, table, Path("/scratch"))}
    argv = list(played["NCCL -R 2, no mixing"].command.argv)
    assert argv[:6] == ["python3", "-m", "busbw", "run", "--ranks", "4"]
    for pair in (("-N", "7"), ("-G", "20"), ("-w", "5"), ("-c", "1"), ("-R", "2"), ("--library", "/w/libnccl.so.2")):
        assert argv[argv.index(pair[0]) + 1] == pair[1]
    assert played["NCCL -R 2, no mixing"].command.environment["NCCL_GRAPH_MIXING_SUPPORT"] == "0"
    assert played[OURS].command.environment["BUSBW_REAL_NCCL"] == "/w/libnccl.so.2"
    assert speed.SYMM_MEM in played
    assert len({player.record for player in played.values()}) == len(played)


def test_only_what_is_shared_out_between_ranks_goes_beyond_1_gib():
    largest: dict[str, int] = {}
    for table in speed.tables(machine(), Wanted()):
        largest[table.collective] = max(largest.get(table.collective, 0), table.band.last)
    assert largest == {"all_reduce": 1 << 30, "all_gather": 4 << 30, "reduce_scatter": 1 << 30, "alltoall": 4 << 30,
                       "broadcast": 1 << 30}  # fmt: skip


def test_tables_keep_to_the_sizes_asked_for_and_come_first_for_all_gpus():
    found = speed.tables(machine(), Wanted(smallest=4096, largest=1 << 20))
    assert {(t.band.first, t.band.last) for t in found} == {(4096, 1 << 20)}
    assert [t.gpus for t in found] == sorted((t.gpus for t in found), reverse=True)
    assert {t.gpus for t in found} == {2, 4}


def test_rounds_go_forwards_and_backwards():
    assert list(in_turn(2, 3)) == [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0)]


def test_checks_cover_every_way_to_hold_the_gpus_and_hand_over_what_is_not_ours():
    planned = list(check.plan((2, 4), ACCELERATED, ("nccl-tests", "busbw"), graphs=True))
    every = {
        (c.collective, c.mode, c.gpus) for c in planned if c.tool == "nccl-tests" and c.what == "every type and op"
    }
    assert len(every) == 5 * 3 * 2
    assert {c.mode for c in planned if "-G" in c.words} == {"processes", "threads", "gpus"}
    assert {(c.collective, c.what) for c in planned if c.tool == "busbw"} >= {(c, "graphs") for c in ACCELERATED}
    assert {c.collective for c in planned if c.what == "handed over to NCCL"} >= {"reduce", "sendrecv", "alltoallv"}
    into_windows = [c for c in planned if c.table]
    assert {(c.collective, c.mode) for c in into_windows if c.tool == "nccl-tests"} == {
        (collective, mode) for collective in ("all_gather", "alltoall", "broadcast") for mode in check.MODES
    }
    assert all(c.words[c.words.index("-R") + 1] == "2" for c in into_windows)
    assert Path(into_windows[0].table).read_text().startswith("busbw-table 1\n")
    assert all("-G" not in c.words for c in check.plan((2,), ACCELERATED, ("busbw",), graphs=False))


def test_the_build_has_tests_and_code_for_this_machines_gpu_only():
    assert "-DBUSBW_CUDA_ARCHITECTURES=90" in build.configure_argv("b", "9.0", ninja=True, host=False)
    assert "-DBUSBW_CUDA=OFF" in build.configure_argv("b", "", ninja=False, host=True)
    assert "-DBUSBW_TESTS=ON" in build.configure_argv("b", "9.0", ninja=False, host=False)


@pytest.mark.parametrize(("mode", "ranks"), [("threads", ["-t", "4", "-g", "1"]), ("gpus", ["-t", "1", "-g", "4"])])
def test_nccl_tests_run_unmodified_with_our_library_preloaded(mode, ranks):
    one = check.Check("nccl-tests", "all_gather", mode, 4, ("-b", "8"), "x")
    started = check.command(one, machine(), {"PATH": "/bin"})
    assert list(started.argv) == ["/t/all_gather_perf", "-b", "8", *ranks]
    assert started.environment["LD_PRELOAD"] == "/b/lib/libbusbw_gpu.so"
    assert started.environment["LD_LIBRARY_PATH"].split(":")[0] == "/w"


def test_the_engine_finds_ours_under_its_own_word():
    one = check.Check("busbw", "all_reduce", "processes", 4, ("-b", "8"), "x")
    started = check.command(one, machine(), {})
    assert started.argv[started.argv.index("--library") + 1] == "busbw"
    assert started.environment["BUSBW_GPU_LIBRARY"] == "/b/lib/libbusbw_gpu.so"
    assert started.environment["BUSBW_REAL_NCCL"] == "/w/libnccl.so.2"


def test_under_mpirun_the_ranks_get_our_library_and_the_launcher_does_not():
    one = check.Check("nccl-tests", "all_reduce", "processes", 4, (), "x")
    started = check.command(one, machine(), {})
    assert "LD_PRELOAD" not in started.environment
    at = started.argv.index("env")
    assert started.argv[0] == "mpirun"
    assert started.argv[at + 1 : at + 3] == ("LD_PRELOAD=/b/lib/libbusbw_gpu.so", "/t/all_reduce_perf")


def test_a_check_passes_only_with_rows_none_wrong_and_ours_at_work():
    good = {"exit": 0, "rows": 5, "wrong": 0, "must_use": True, "used": ["one_shot/ll"]}
    assert check.passed(good)
    for change in ({"exit": 7}, {"rows": 0}, {"wrong": 1}, {"used": []}):
        assert not check.passed({**good, **change})
    assert check.passed({**good, "must_use": False, "used": []})


def test_the_kernels_at_work_are_read_from_what_the_library_logs():
    ours = "busbw: rank 0: all_reduce by two_shot/ll 16x128 from a count of 4096 float on"
    text = f"{ours}\nbusbw: rank 1: broadcast by nccl: off\n"
    assert check.used(text) == ["two_shot/ll"]


def test_the_cross_check_starts_both_programs_alike_and_only_the_ranks_get_our_library():
    base = {"PATH": "/bin"}
    theirs = cross.command(cross.Cross("nccl-tests", OURS, "all_reduce"), machine(), base)
    engine = cross.command(cross.Cross("busbw", OURS, "all_reduce"), machine(), base)
    plain = cross.command(cross.Cross("nccl-tests", "NCCL", "all_reduce"), machine(), base)
    assert theirs.argv[:6] == engine.argv[:6] == plain.argv[:6]
    assert theirs.argv[6:8] == ("env", "LD_PRELOAD=/b/lib/libbusbw_gpu.so")
    assert plain.argv[6] == "/t/all_reduce_perf"
    assert engine.argv[-1] == "/b/lib/libbusbw_gpu.so"
    assert "LD_PRELOAD" not in {**theirs.environment, **plain.environment}


def test_a_sweep_measures_every_kernel_by_the_librarys_own_names_and_then_tunes():
    wanted = Wanted(collectives=("alltoall",), smallest=4096)
    argv = sweep.kernel_argv(machine(), wanted, "alltoall", 4, 12.4)
    assert argv[0] == "/b/bin/busbw_kernel_sweep"
    for pair in (("--ranks", "4"), ("--collective", "all_to_all"), ("--min", "4096"), ("--max", "1073741824"),
                 ("--budget", "12")):  # fmt: skip
        assert argv[argv.index(pair[0]) + 1] == pair[1]
    tune = sweep.tune_argv(machine(), wanted, 2, 30, Path("/t"))
    assert tune[:6] == ("python3", "-m", "busbw", "tune", "alltoall", "--ranks")


def test_the_words_for_tuning_are_those_that_the_verb_takes():
    from busbw.base.words import parse

    argv = sweep.tune_argv(machine(), Wanted(), 4, 30, Path("/t"))
    parsed = parse("tune", argv[4:])
    assert parsed.output is not None


@pytest.mark.parametrize("gpus", [2, 3, 4, 8])
def test_the_calls_of_the_stress_run_are_shared_out_completely(gpus):
    shapes = stress.shapes(gpus)
    assert sum(shape.part for shape in shapes) == pytest.approx(1)
    assert all(shape.part > 0 and 2 <= shape.ranks <= gpus for shape in shapes)
    assert {(s.processes > 1, s.threads > 1, s.devices > 1) for s in shapes} >= {
        (True, False, False), (False, True, False), (False, False, True)
    }  # fmt: skip


def test_ranks_know_their_place_for_busbw_and_for_pytorch():
    commands = as_ranks(("program",), {"A": "1"}, 3, 4711)
    assert (
        [c.environment["RANK"] for c in commands] == [c.environment["BUSBW_RANK"] for c in commands] == ["0", "1", "2"]
    )
    assert {c.environment["BUSBW_ADDRESS"] for c in commands} == {"127.0.0.1:4711"}
    assert len({c.environment["BUSBW_SECRET"] for c in commands}) == 1
    assert all(c.environment["A"] == "1" for c in commands)


def test_a_run_that_would_not_end_in_time_is_not_started():
    clock = Clock()
    deadline = Deadline(100, clock)
    assert deadline.allows("new", guess=80)
    assert not deadline.allows("new", guess=95)
    deadline.took("known", 30)
    clock.now = 65
    assert deadline.allows("known", guess=1)
    clock.now = 70
    assert not deadline.allows("known", guess=1)
    assert deadline.limit(90) == pytest.approx(30)


def test_stages_share_the_time_by_weight_and_leave_what_they_do_not_use():
    names = ["speed", "stress"]
    assert share(90, names) == pytest.approx(90 * WEIGHTS["speed"] / (WEIGHTS["speed"] + WEIGHTS["stress"]))
    assert share(80, names[1:]) == 80


def test_sizes_are_read_and_written():
    assert [parse_size(text) for text in ("512", "1K", "3M", "4G")] == [512, 1024, 3 << 20, 4 << 30]
    assert [words(size) for size in (512, 1024, 3 << 20, 4 << 30)] == ["512 B", "1 KiB", "3 MiB", "4 GiB"]
    assert within(1, 10, 5, 20) == (5, 10)
    assert within(1, 4, 5, 20) is None
    with pytest.raises(ValueError, match="'1T' is no size"):
        parse_size("1T")
