"""What is varied, from words and files, and plans that are kept and read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.base.errors import UsageError, UserError
from busbw.base.quantities import parse_seconds
from busbw.experiment import factors
from busbw.experiment.factors import variants
from busbw.experiment.file import read_plan
from busbw.experiment.plan import Limits, Plan, check, load, save
from busbw.experiment.runner import environment_of


def test_values_of_a_variable_are_levels_and_the_first_is_the_baseline():
    factor = factors.variable("NCCL_ALGO=unset,Ring,Tree")
    assert [dict(level.environment) for level in factor.levels] == [
        {"NCCL_ALGO": None}, {"NCCL_ALGO": "Ring"}, {"NCCL_ALGO": "Tree"},
    ]  # fmt: skip


def test_one_value_is_compared_with_things_as_they_are():
    factor = factors.variable("NCCL_ALGO=Ring")
    assert [dict(level.environment) for level in factor.levels] == [{}, {"NCCL_ALGO": "Ring"}]


def test_values_with_commas_are_separated_by_bars():
    factor = factors.variable("NCCL_IB_HCA=mlx5_0,mlx5_1|mlx5_0")
    assert [level.label for level in factor.levels] == ["mlx5_0,mlx5_1", "mlx5_0"]


@pytest.mark.parametrize("text", ["NCCL_ALGO", "=Ring", "9A=1,2", "A=1,1"])
def test_what_varies_nothing_is_refused(text):
    with pytest.raises(UsageError):
        factors.variable(text)


def test_several_factors_combine_fully_and_one_at_a_time_by_themselves():
    two = [factors.variable("A=1,2,3"), factors.variable("B=1,2")]
    assert [each.name for each in variants(two)] == ["baseline", "B=2", "A=2", "A=2 B=2", "A=3", "A=3 B=2"]
    assert [each.name for each in variants(two, one_at_a_time=True)] == ["baseline", "A=2", "A=3", "B=2"]


def test_too_many_combinations_are_refused_before_any_is_made():
    with pytest.raises(UsageError, match="one-at-a-time"):
        variants([factors.variable(f"A{i}=" + ",".join(map(str, range(30)))) for i in range(30)])


def test_libraries_and_arguments_become_words_of_the_engine():
    chosen = variants([factors.library("cpu,/x/libnccl.so"), factors.arguments("|-R 2")])
    assert chosen[-1].arguments == ("-R", "2", "--library", "/x/libnccl.so")
    assert chosen[0].arguments == ("--library", "cpu")


def test_a_trial_inherits_the_users_variables_but_for_what_is_varied():
    chosen = variants([factors.variable("NCCL_ALGO=unset,Ring")])
    given = {"NCCL_NVLS_ENABLE": "0", "NCCL_ALGO": "Tree", "BUSBW_RANK": "3"}
    baseline, ring = (environment_of(variant, given, Path()) for variant in chosen)
    assert baseline["NCCL_NVLS_ENABLE"] == ring["NCCL_NVLS_ENABLE"] == "0"
    assert "NCCL_ALGO" not in baseline
    assert ring["NCCL_ALGO"] == "Ring"
    assert "BUSBW_RANK" not in ring


def test_what_a_file_of_another_library_sets_is_refused_to_be_unset(tmp_path, monkeypatch):
    (tmp_path / "ucx.conf").write_text("# all\nUCX_TLS=tcp\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    for values, refused in (("unset,rc", True), ("tcp,rc", False)):
        plan = Plan((factors.variable(f"UCX_TLS={values}".replace(",", "|")),), ("all_reduce", "-b", "1M"), ranks=2)
        if refused:
            with pytest.raises(UsageError, match=f"UCX_TLS cannot be unset: line 2 of {tmp_path}/ucx.conf"):
                check(plan)
        else:
            check(plan)


def test_a_plan_is_read_as_it_was_kept(tmp_path):
    plan = Plan(
        (factors.variable("A=unset,2"), factors.arguments("-R 0|-R 2")), ("all_reduce", "-b", "1M"), ranks=2,
        launch=("--bind", "cores"), one_at_a_time=True, seed=5, limits=Limits(seconds=12.5, rounds=7),
    )  # fmt: skip
    save(plan, tmp_path)
    assert load(tmp_path) == plan


def test_a_newer_plan_is_refused(tmp_path):
    (tmp_path / "experiment.json").write_text('{"schema": 99}')
    with pytest.raises(UserError, match="newer"):
        load(tmp_path)


@pytest.mark.parametrize("words", [(), ("allreduce",), ("all_reduce", "--record", "x"), ("all_reduce", "--no-record")])
def test_words_that_are_no_measurement_are_refused(words):
    with pytest.raises(UsageError):
        check(Plan((factors.variable("A=1,2"),), words))


def test_a_file_describes_a_plan(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text("""
command = ["all_reduce", "-b", "1M", "-e", "1G", "-f", "4"]
ranks = 4
seconds = "10m"
[[vary]]
variable = "NCCL_IB_HCA"
values = ["unset", "mlx5_0,mlx5_1"]
[[vary]]
library = ["system", "./libnccl.so"]
[[vary]]
name = "buffers"
levels = [{ label = "few" }, { label = "many", environment = { NCCL_BUFFSIZE = 8388608, NCCL_NTHREADS = "unset" } }]
""")
    plan = read_plan(path)
    assert plan.words == ("all_reduce", "-b", "1M", "-e", "1G", "-f", "4")
    assert (plan.ranks, plan.limits.seconds) == (4, 600.0)
    assert [factor.name for factor in plan.factors] == ["NCCL_IB_HCA", "library", "buffers"]
    assert plan.factors[0].levels[1].label == "mlx5_0,mlx5_1"
    assert plan.factors[2].levels[1].environment == {"NCCL_BUFFSIZE": "8388608", "NCCL_NTHREADS": None}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("command = 3", "nothing is varied"),
        ("bandwidth = 1\n[[vary]]\nvariable='A'\nvalues=['1','2']", "'bandwidth' is unknown"),
        ("command='all_reduce'\n[[vary]]\nvalues=['1','2']", "give one of the three"),
        ("command='all_reduce'\nseconds='soon'\n[[vary]]\nvariable='A'\nvalues=['1','2']", "no time"),
        ("vary = [", "no TOML"),
    ],
)
def test_a_mistake_in_a_file_is_named(tmp_path, text, said):
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=said):
        read_plan(path)


def test_times_are_read_as_people_write_them():
    assert [parse_seconds(text) for text in ("90", "90s", "10m", "1.5h")] == [90, 90, 600, 5400]


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "null", '{"schema": "one"}', '{"schema": 1}', '{"schema": 1, "factors": 3}', "[" * 100_000,
        '{"schema": 1, "factors": [{"name": "f", "levels": []}], "words": ["all_reduce"], "ranks": 1, "launch": [], '
        '"one_at_a_time": false, "seed": 1, "limits": {}}',
        '{"schema": 1, "factors": [{"name": "f", "levels": [{"label": "a", "environment": {"A=B": "1"}, "library": '
        'null, "arguments": [], "unbind": false}, {"label": "b", "environment": {}, "library": null, "arguments": [], '
        '"unbind": false}]}], "words": ["all_reduce"], "ranks": 1, "launch": [], "one_at_a_time": false, "seed": 1, '
        '"limits": {}}',
    ],
)  # fmt: skip
def test_a_plan_that_somebody_broke_is_a_sentence(tmp_path, text):
    (tmp_path / "experiment.json").write_text(text)
    with pytest.raises(UserError):
        load(tmp_path)


def test_a_name_of_two_lines_in_a_plan_is_quoted_in_one(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('command = ["all_reduce"]\n[[vary]]\nvariable = "NCCL\\nX"\nvalues = ["1", "2"]\n')
    with pytest.raises(UserError) as told:
        read_plan(plan)
    assert "\n" not in str(told.value) and "NCCL\\nX" in str(told.value)
