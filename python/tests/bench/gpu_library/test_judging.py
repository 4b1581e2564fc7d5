"""What becomes of figures: medians, verdicts, goals, tables, and the exit code."""

from __future__ import annotations

import json

import pytest
from gpu_library.figures import Figure, Sample, busbw_GBps, read_samples, summarise
from gpu_library.report import best_before, closing_lines, markdown, passed, speed_tables
from gpu_library.stages import cross, faults, sanitizer, stress, sweep, training
from gpu_library.verdict import Target, compare_with_targets, judge, line, load_targets, reach_line

KEY = ("all_reduce", 4, "graph")


def figure(us, spread=0.0, wrong=0.0):
    return Figure(us, spread, 6, wrong, times=(us - spread / 2, us + spread / 2) * 3)


def sample(size, us, placement="out_of_place", **more):
    return {"bytes": size, "placement": placement, "us": us, **more}


def speed(peer, samples, code=0, reason=""):
    return {"collective": "all_reduce", "gpus": 4, "band": "graph", "round": 0, "peer": peer, "exit": code,
            "reason": reason, "samples": samples}  # fmt: skip


def test_samples_come_from_the_measured_cases_of_a_record_even_of_one_that_was_cut_off(tmp_path):
    record = tmp_path / "record.jsonl"
    case = {"kind": "case", "bytes": 1024, "placement": "in_place", "outcome": "measured", "time_us": 2.5, "wrong": 0}
    lines = [
        {"kind": "run"},
        {**case, "algorithm": "one_shot/ll"},
        {**case, "outcome": "skipped"},
        {**case, "time_us": None},
    ]
    record.write_text("\n".join(map(json.dumps, lines)) + '\n{"kind": "case", "by')
    assert read_samples(record) == [Sample(1024, "in_place", 2.5, 0.0, "one_shot/ll")]
    assert read_samples(tmp_path / "none") == []


def test_figures_are_medians_with_the_distance_of_the_quartiles_and_the_worst_count_of_wrong_elements():
    samples = [Sample(8, "out_of_place", us, wrong) for us, wrong in ((1, 0), (2, 0), (3, 5), (4, 0), (50, 0))]
    found = summarise([*samples, Sample(8, "in_place", 99.0)])
    assert found == {8: Figure(us=3, spread_us=2, samples=5, wrong=5)}


def test_few_samples_lie_as_far_apart_as_the_farthest_of_them():
    assert summarise([Sample(8, "out_of_place", 1.0), Sample(8, "out_of_place", 4.0)])[8].spread_us == 3.0
    assert summarise([Sample(8, "out_of_place", 1.0)])[8].spread_us == 0.0


@pytest.mark.parametrize(("ours", "best", "word"), [
    (figure(2.0), figure(3.0), "ahead"), (figure(3.0), figure(2.0), "behind"),
    (figure(2.9, 0.2), figure(3.0, 0.2), "level"), (figure(3.1, 0.2), figure(3.0, 0.2), "level"),
    (figure(2.98), figure(3.0), "level"), (figure(2.9), figure(3.0), "ahead"),
    (figure(2.0, wrong=1), figure(3.0), "wrong"),
])  # fmt: skip
def test_ahead_and_behind_are_the_verdict_of_busbw_itself(ours, best, word):
    assert judge(KEY, 1024, {"ours": ours, "NCCL": best}).word == word


def test_ours_is_the_faster_of_its_two_ways_unless_one_is_wrong():
    verdict = judge(KEY, 1024, {"ours": figure(3), "ours -R 2": figure(2), "NCCL": figure(2.5)})
    assert (verdict.word, verdict.ours, verdict.best_name) == ("ahead", figure(2), "NCCL")
    assert judge(KEY, 1024, {"ours": figure(3), "ours -R 2": figure(4), "NCCL": figure(9)}).ours == figure(3)
    assert judge(KEY, 1024, {"ours": figure(3), "ours -R 2": figure(4, wrong=1), "NCCL": figure(9)}).word == "wrong"


def test_the_best_other_is_the_fastest_of_those_with_right_results():
    verdict = judge(KEY, 1024, {"ours": figure(2), "NCCL": figure(9), "fast": figure(4), "cheat": figure(1, wrong=3)})
    assert (verdict.best_name, verdict.ratio) == ("fast", 2.0)
    assert line(verdict) == "all_reduce, 4 GPUs, graph, 1 KiB: ahead, 2.00 us against 4.00 of fast (x 2.00)"


def test_without_ours_or_without_others_nothing_is_claimed():
    assert judge(KEY, 1024, {"NCCL": figure(2)}).word == "missing"
    assert judge(KEY, 1024, {"ours": figure(2)}).word == "alone"


def test_goals_are_times_at_most_or_bandwidths_at_least():
    verdicts = [
        judge(KEY, 1024, {"ours": figure(2.3)}),
        judge(("all_gather", 4, "eager"), 1 << 30, {"ours": figure(2150)}),
    ]
    time = Target("all_reduce", 4, "graph", 1024, us=2.2)
    rate = Target("all_gather", 4, "eager", 1 << 30, busbw_GBps=372)
    nothing = Target("broadcast", 4, "graph", 8, us=1)
    missed, reached, unknown = compare_with_targets(verdicts, [time, rate, nothing])
    assert (missed.reached, reached.reached, unknown.reached) == (False, True, None)
    assert reach_line(missed).endswith("2.30 us, meant to be at most 2.2 us: not reached")
    assert "374.56 GB/s, meant to be at least 372 GB/s: reached" in reach_line(reached)
    assert "not measured" in reach_line(unknown)


def test_a_wrong_result_reaches_no_goal():
    verdict = judge(KEY, 1024, {"ours": figure(1.0, wrong=2)})
    assert compare_with_targets([verdict], [Target("all_reduce", 4, "graph", 1024, us=2.2)])[0].reached is False


def test_the_goals_and_the_earlier_figures_say_where_they_come_from_and_fit_the_measured_sizes():
    source, targets = load_targets()
    assert "Goals, not measurements" in source
    measured = {1 << (10 + 2 * step) for step in range(12)}
    assert targets
    assert {target.size for target in targets} <= measured
    assert all((target.us is None) != (target.busbw_GBps is None) for target in targets)
    source, earlier = best_before()
    assert "H200" in source
    assert all(us > 0 for sizes in earlier.values() for us in sizes.values())


def test_bus_bandwidth_is_that_of_nccl_tests():
    assert busbw_GBps("all_reduce", 4, 1 << 30, 4534) == pytest.approx(355.2, abs=0.1)
    assert busbw_GBps("alltoall", 4, 1 << 30, 2218) == pytest.approx(363.1, abs=0.1)
    assert busbw_GBps("broadcast", 4, 1 << 30, 3088) == pytest.approx(347.7, abs=0.1)


def call(**stages):
    return {"machine": {"GPUs": "4 x NVIDIA H200"}, "stages": stages, "broken": {}}


def test_the_page_has_a_row_per_size_with_every_library_the_verdict_and_the_goal():
    results = [speed("ours", [sample(1024, 2.0, algorithm="one_shot/ll@4x128"), sample(1024, 2.2)]),
               speed("NCCL", [sample(1024, 8.9)]),
               speed("MSCCL++", [sample(1024, us) for us in (3.0, 3.1, 3.2)], 1, "it broke")]  # fmt: skip
    page = markdown([call(speed=results)])
    assert (
        "| 1 KiB | 2.10 | 0.20 of 2 | 8.90 | 3.10 | ahead, x 1.48 | 0.7 | 2.2 reached | 2.78 | one_shot/ll@4x128 |"
        in page
    )
    assert "- MSCCL++, all_reduce, 4 GPUs, graph: exit 1, 1 times: it broke" in page


def test_rounds_and_calls_are_merged():
    one, two = call(speed=[speed("ours", [sample(8, 1.0)])]), call(speed=[speed("ours", [sample(8, 3.0)])])
    merged = [*one["stages"]["speed"], *two["stages"]["speed"]]
    assert speed_tables(merged)[KEY][8]["ours"].us == 2.0
    assert "| 8 B | 2.00 |" in markdown([one, two])


def test_slower_is_a_result_but_wrong_or_broken_is_a_failure():
    slow = speed("ours", [sample(8, 9.0)])
    assert passed(call(speed=[slow, speed("NCCL", [sample(8, 1.0)])]))
    assert passed(call(speed=[slow, speed("MSCCL++", [], 1, "cannot")]))
    assert not passed(call(speed=[speed("ours", [sample(8, 9.0, wrong=3)])]))
    assert not passed(call(speed=[speed("ours", [], 2, "hung")]))
    assert not passed({**call(), "broken": {"check": "no nccl-tests"}})
    stress_result = {"shape": "x", "exit": 7, "reason": "call 3", "asked": 10, "ranks": 2}
    assert not passed(call(stress=[stress_result]))
    assert passed(call(stress=[{**stress_result, "exit": 0}]))


def test_the_closing_lines_name_each_size_and_count_the_stages():
    lines = closing_lines(call(
        speed=[speed("ours", [sample(1024, 2.0)]), speed("NCCL", [sample(1024, 8.9)])],
        stress=[{"exit": 0, "calls": 60}, {"exit": 7, "calls": 40}],
    ))  # fmt: skip
    assert lines[0].startswith("all_reduce, 4 GPUs, graph, 1 KiB: ahead")
    assert lines[-2] == "speed: 1 ahead"
    assert lines[-1] == "stress: 1 of 2 good, 100 calls"


def test_losses_must_be_equal_bit_for_bit_on_all_ranks():
    def said_by(rank):
        ms = [2, 4, 3 + rank]
        return json.dumps({"training": {"rank": rank, "shared_losses": ["3f800000"], "parameters": "a", "step_ms": ms}})

    said = [said_by(1), said_by(0)]
    ranks = training.parse([f"noise\n{said[0]}\n", said[1]])
    assert [each["rank"] for each in ranks] == [0, 1]
    assert training.equal_on_all_ranks(ranks)
    assert training.step_ms(ranks) == 4
    ranks[1]["shared_losses"] = ["3f800001"]
    assert not training.equal_on_all_ranks(ranks)
    assert not training.equal_on_all_ranks([])


def test_training_speed_is_the_ratio_of_medians_and_equality_counts_for_ours():
    def result(side, ms, equal=True):
        return {"workload": "ddp", "side": side, "step_ms": ms, "equal": equal, "losses": "3f", "exit": 0}

    (found,) = training.summarise([result("NCCL", 6.0), result("ours", 4.0), result("ours", 2.0), result("NCCL", 6.0)])
    assert (found["speed"], found["equal"], found["same_as_nccl"]) == (2.0, True, True)
    (found,) = training.summarise([result("NCCL", 6.0), result("ours", 4.0, equal=False)])
    assert found["equal"] is False
    (found,) = training.summarise([result("NCCL", 6.0)])
    assert (found["equal"], found["same_as_nccl"], found["speed"]) == (None, None, None)


@pytest.mark.parametrize(("text", "named"), [
    ("busbw: process 0 stops because of process 3: lost", True), ("Rank 3 (pid 7 on vm) ended", True),
    ("rank #3 is gone", True), ("rank 31 is gone", False), ("3 ranks are left", False),
])  # fmt: skip
def test_a_message_names_the_lost_rank_or_does_not(text, named):
    assert faults.names_rank(text, 3) == named


def test_survivors_must_end_by_themselves_in_time_with_a_failure_and_the_name():
    good = faults.Survivor(0, 3, 2.0, names_it=True, said="")
    assert faults.judge([good])
    for bad in (faults.Survivor(0, 0, 2.0, True, ""), faults.Survivor(0, 124, 2.0, True, ""),
                faults.Survivor(0, 3, 11.0, True, ""), faults.Survivor(0, 3, 2.0, False, "")):  # fmt: skip
        assert not faults.judge([good, bad])
    assert not faults.judge([])


def test_the_fastest_use_of_each_size_is_named_beside_the_fastest_other_kernel():
    def said(algorithm, channels, us):
        shape = {"bytes": 1024, "channels": channels, "threads": 128}
        return json.dumps({"collective": "all_reduce", "algorithm": algorithm, "protocol": "ll", **shape, "us": us})

    lines = [
        "noise",
        said("one_shot", 4, 2.2),
        said("one_shot", 8, 2.4),
        said("two_shot", 4, 3.0),
        '{"collective": "al',
    ]
    result = sweep.as_result("all_reduce", 4, 0, "\n".join(lines))
    table = {"kind": "table", "collective": "all", "gpus": 4, "exit": 0, "table": "busbw-table 1\n", "reason": ""}
    assert sweep.winners([result, table]) == [
        ("all_reduce", 4, 1024, "one_shot/ll@4x128", 2.2, "two_shot/ll@4x128", 3.0)
    ]  # fmt: skip
    page = markdown([call(sweep=[result, table])])
    assert "| all_reduce | 4 | 1 KiB | one_shot/ll@4x128 | 2.20 | two_shot/ll@4x128 | 3.00 |" in page
    assert "    busbw-table 1" in page


def test_the_cross_check_compares_medians_where_both_programs_have_figures():
    def result(tool, us):
        return {"tool": tool, "library": "ours", "collective": "all_reduce", "us": {"1024": us, "64": us}}

    runs = [result("nccl-tests", 2.0), result("busbw", 3.0), result("nccl-tests", 4.0), result("nccl-tests", 9.0)]
    del runs[1]["us"]["64"]
    assert cross.compared(runs) == [("all_reduce", "ours", 1024, 4.0, 3.0)]


def test_the_sanitizer_gets_each_gpu_program_once_and_its_count_is_read():
    listing = json.dumps(
        {"tests": [{"command": ["/b/a", "--gtest_filter=x"]}, {"command": ["/b/a"]}, {"command": ["/b/b"]}]}
    )
    assert sanitizer.gpu_programs(listing) == ["/b/a", "/b/b"]
    assert sanitizer.gpu_programs("no tests") == []
    assert sanitizer.errors("========= x\n========= ERROR SUMMARY: 0 errors\n") == "0 errors"


def test_a_stress_summary_that_is_missing_or_cut_off_is_empty(tmp_path):
    file = tmp_path / "summary.json"
    assert stress.read_summary(file) == {}
    file.write_text('{"calls": 3')
    assert stress.read_summary(file) == {}
