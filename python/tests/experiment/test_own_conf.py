"""What is unset is unset in each process, although an nccl.conf sets it: the variant has a conf of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from busbw.base.errors import UsageError
from busbw.experiment import factors
from busbw.experiment.factors import variants
from busbw.experiment.plan import Plan, check
from busbw.experiment.runner import environment_of, run_trial
from busbw.experiment.trial import Outcome


def test_unset_takes_back_what_a_conf_file_would_set_again(tmp_path):
    conf = tmp_path / "mine.conf"
    conf.write_bytes(b"# f\xfcr all\r\nNCCL_TOPO_FILE=/t.xml\nNCCL_PROTO=LL\r\nNCCL_TOPO_FILE=/u.xml")
    [unset, named] = variants([factors.variable("NCCL_TOPO_FILE=unset,/x.xml")])
    given = {"NCCL_CONF_FILE": str(conf), "NCCL_TOPO_FILE": "/t.xml"}
    environment = environment_of(unset, given, tmp_path)
    assert "NCCL_TOPO_FILE" not in environment, "NCCL would try to open the file of an empty name"
    own = Path(environment["NCCL_CONF_FILE"])
    assert (
        own != conf and own.read_bytes() == b"# f\xfcr all\r\nNCCL_PROTO=LL\r" and own.stat().st_mode & 0o777 == 0o600
    )
    assert environment_of(named, given, tmp_path)["NCCL_CONF_FILE"] == str(conf)
    for other in ({"NCCL_CONF_FILE": "/none"}, {"NCCL_CONF_FILE": str(conf), "NCCL_ALGO": "Ring"}):
        [baseline, _] = variants([factors.variable("NCCL_ALGO=unset,Tree")])
        assert environment_of(baseline, other, tmp_path)["NCCL_CONF_FILE"] == other["NCCL_CONF_FILE"]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("NCCL_BUFFSIZE=4194304", ""),
        ("NCCL_IB_HCA=mlx5_0", ""),
        ("NCCL_ALGO=Ring", "^"),
        ("NCCL_PROTO=LL", None),
        ("NCCL_TOPO_FILE=/t.xml", None),
        ("NCCL_HOSTID=7", None),
        ("CUDA_VISIBLE_DEVICES=0", None),
    ],
)
def test_what_the_file_of_the_system_sets_has_another_value_or_is_refused_with_its_line(
    tmp_path, monkeypatch, line, value
):
    system = tmp_path / "system.conf"
    system.write_text(f"# image\n{line}\n")
    for module in ("busbw.machine.nccl.conf", "busbw.experiment.own_conf"):
        monkeypatch.setattr(f"{module}.SYSTEM_CONF", str(system))
    name = line.partition("=")[0]
    plan = Plan((factors.variable(f"{name}=unset|7"),), ("all_reduce", "-b", "1M"), ranks=2)
    if value is None:
        with pytest.raises(UsageError, match=f"{name} cannot be unset: NCCL always reads {system}, and line 2 of it"):
            check(plan)
    else:
        assert environment_of(check(plan).variants[0], {}, tmp_path)[name] == value


def test_which_of_two_files_is_the_users_must_be_said_before_a_variable_of_it_is_unset(tmp_path, monkeypatch):
    for home in ("a", "b"):
        (tmp_path / home).mkdir()
        (tmp_path / home / ".nccl.conf").write_text("NCCL_PROTO=LL\n")
    monkeypatch.setattr("busbw.machine.nccl.conf._home", lambda: str(tmp_path / "a"))
    monkeypatch.setenv("HOME", str(tmp_path / "b"))
    plan = Plan((factors.variable("NCCL_PROTO=unset,Simple"),), ("all_reduce", "-b", "1M"), ranks=2)
    with pytest.raises(UsageError, match=r"depends on the version of NCCL; name one of them by NCCL_CONF_FILE"):
        check(plan)
    monkeypatch.setenv("HOME", str(tmp_path / "a"))
    [unset, _] = check(plan).variants
    assert environment_of(unset, {"HOME": str(tmp_path / "a")}, tmp_path)["NCCL_CONF_FILE"] == str(
        tmp_path / "nccl.conf"
    )


def test_the_copy_of_a_conf_goes_with_the_trial(tmp_path, monkeypatch):
    conf = tmp_path / "mine.conf"
    conf.write_text("NCCL_PROTO=LL\nNCCL_ALGO=Ring\n")
    monkeypatch.setenv("NCCL_CONF_FILE", str(conf))
    plan = Plan((factors.variable("NCCL_PROTO=unset,Simple"),), ("all_reduce", "-b", "1M"))
    show = "import os; print(open(os.environ['NCCL_CONF_FILE']).read(), 'NCCL_PROTO' in os.environ)"
    monkeypatch.setattr("busbw.experiment.runner.command_of", lambda *_: [sys.executable, "-c", show])
    for variant, says in enumerate(("NCCL_ALGO=Ring\n False\n", "NCCL_PROTO=LL\nNCCL_ALGO=Ring\n True\n")):
        run_trial(plan, 1, variant, tmp_path, 30.0)
        place = tmp_path / "trials" / f"r0001-v{variant:03d}"
        assert [each.name for each in place.iterdir()] == ["output.txt"]
        assert (place / "output.txt").read_text() == says


@pytest.mark.parametrize("removed", [True, False])
def test_a_variable_that_an_old_nccl_set_all_the_same_makes_the_trial_none(tmp_path, monkeypatch, removed):
    run = {"schema": 1, "kind": "run", "run": "a", "started": None, "tool": {"name": "busbw"}, "library": None,
           "ranks": [], "environment": {"NCCL_PROTO": "LL"},
           "conf": [{"name": "NCCL_PROTO", "value": "LL", "file": "~/.nccl.conf", "in_force": True}]}  # fmt: skip
    case = {"schema": 1, "kind": "case", "run": "a", "case": 0, "collective": "all_reduce", "bytes": 8,
            "outcome": "measured", "placement": "in_place", "time_us": 1.0, "algbw_GBps": 1.0,
            "busbw_GBps": 1.0}  # fmt: skip
    write = "import sys; open(sys.argv[1], 'w').write(sys.argv[2])"
    lines = f"{json.dumps(run)}\n{json.dumps(case)}\n"
    monkeypatch.setattr(
        "busbw.experiment.runner.command_of", lambda _, __, kept, ___: [sys.executable, "-c", write, str(kept), lines]
    )
    plan = Plan((factors.variable("NCCL_PROTO=unset,Simple"),), ("all_reduce", "-b", "1M"))
    trial = run_trial(plan, 1, 0 if removed else 1, tmp_path, 30.0)
    assert trial.outcome is (Outcome.CRASHED if removed else Outcome.MEASURED), trial.reason
    assert removed == trial.reason.startswith("NCCL_PROTO stayed set: this NCCL reads ~/.nccl.conf whatever")
