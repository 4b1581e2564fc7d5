"""Who switched multicast off keeps it off: no way with NVLS is tried, and the variable is emptied in no trial."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.experiment.tune_nccl.ways import Asked, environment_of, first_ways, hindering, without_multicast


@pytest.fixture(autouse=True)
def _nothing_else_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NCCL_CONF_FILE", str(tmp_path / "nccl.conf"))
    monkeypatch.delenv("NCCL_NVLS_ENABLE", raising=False)


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter"])
@pytest.mark.parametrize("nodes", [1, 2])
def test_no_way_needs_multicast_where_it_is_off(collective: str, nodes: int) -> None:
    names = {way.name for way in first_ways(collective, nodes, multicast=False)}
    assert not any(name.startswith("nvls") for name in names) and "ring/simple" in names
    assert any(way.name.startswith("nvls") for way in first_ways(collective, nodes))


def test_the_environment_and_conf_files_switch_it_off(tmp_path: Path) -> None:
    conf = tmp_path / "nccl.conf"
    file = {"NCCL_CONF_FILE": str(conf)}
    assert not without_multicast(file)
    assert without_multicast({**file, "NCCL_NVLS_ENABLE": "0"})
    conf.write_text("NCCL_NVLS_ENABLE=0\n")
    assert without_multicast(file)
    # The environment wins over files.
    assert not without_multicast({**file, "NCCL_NVLS_ENABLE": "1"})


def test_trials_leave_the_variable_alone(tmp_path: Path) -> None:
    given = {"NCCL_NVLS_ENABLE": "0", "NCCL_ALGO": "Tree", "NCCL_CONF_FILE": str(tmp_path / "none")}
    assert hindering(given) == ("NCCL_ALGO",)
    table = tmp_path / "table"
    table.write_text("busbw-tuner 1\nend 0\n")
    made = environment_of(Asked(("all_reduce",), 2, 1, 2, loosened=hindering(given)), table)
    assert made["NCCL_ALGO"] is None and "NCCL_NVLS_ENABLE" not in made


def test_the_plan_says_that_it_stays_off(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("busbw.launch.in_front.find_beside", lambda *_: Path("plugin.so"))
    for value, off in (("0", True), ("1", False)):
        monkeypatch.setenv("NCCL_NVLS_ENABLE", value)
        assert main(["tune", "nccl", "all_reduce", "--ranks", "2", "--dry-run"]) == 0
        said = capsys.readouterr().out
        assert ("NCCL_NVLS_ENABLE=0 stays as it is" in said) == off == ("nvls/simple" not in said)
