"""The proof of a setting that an nccl.conf holds: a copy without its line, or a value that NCCL takes for none."""

from __future__ import annotations

import pytest

from busbw.doctor.facts import gather
from busbw.doctor.finding import Cost, Evidence, Finding, Severity
from busbw.doctor.reading.snapshot import Snapshot, TextFile
from busbw.doctor.remedy import without
from busbw.doctor.text import proof_text
from busbw.machine.nccl.conf import Origin, Setting

MINE, SYSTEM = Origin("conf/a.conf", 3, conf=True), Origin("/etc/nccl.conf", 2, conf=True)


def text(*settings: Setting) -> str:
    proof = without(*settings)
    return proof_text(Finding("x", Severity.NOTE, "x", (Evidence("x", "x"),), Cost("x"), "x", proof))


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        (Setting("NCCL_PROTO", "LL", Origin("environment")), "measure against: unset NCCL_PROTO"),
        (
            Setting("NCCL_PROTO", "LL", MINE),
            "measure against: unset NCCL_PROTO, NCCL_CONF_FILE naming a copy of conf/a.conf without line 3",
        ),
        (
            Setting("NCCL_PROTO", "LL", Origin("environment"), (("Simple", MINE),)),
            "measure against: unset NCCL_PROTO, NCCL_CONF_FILE naming a copy of conf/a.conf without line 3",
        ),
        (Setting("NCCL_BUFFSIZE", "4096", SYSTEM), "measure against: NCCL_BUFFSIZE empty"),
        (Setting("NCCL_ALGO", "Ring", SYSTEM), "measure against: NCCL_ALGO=^"),
        (Setting("NCCL_GRAPH_FILE", "/g", SYSTEM), "measure against: NCCL_GRAPH_FILE naming a file without channels"),
    ],
)
def test_a_proof_says_how_the_setting_loses_its_effect(setting: Setting, says: str) -> None:
    assert text(setting) == says


def test_what_has_no_value_for_none_is_left_to_a_person() -> None:
    said = text(Setting("NCCL_BUFFSIZE", "4096", SYSTEM), Setting("NCCL_PROTO", "LL", SYSTEM))
    assert said.startswith("remove line 2 of /etc/nccl.conf, measure, and compare: no value of NCCL_PROTO is none")
    assert not without(Setting("NCCL_PROTO", "LL", SYSTEM)).runnable


@pytest.mark.parametrize(("version", "problems"), [("2.31.2+cuda13.3", 0), ("2.21.5+cuda12.4", 1)])
def test_the_log_beside_a_conf_says_by_which_rules_it_is_read(version: str, problems: int) -> None:
    log, conf = TextFile("job.log", f"NCCL version {version}\n"), TextFile("nccl.conf", "NCCL_PROTO=LL\r\n")
    [read] = gather(Snapshot("x", logs=(log,), confs=(conf,))).confs
    assert len(read.problems) == problems
