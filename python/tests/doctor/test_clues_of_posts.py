"""What posts show beside an error decides: pings by size, software that is not there, hosts that name things apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.finding import Severity

from .asked import logs_of, loud

LOGS = logs_of("f153-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("jumbo-lost-in-one-line", "packets of 9000 bytes do not get through to 10.60.4.2", "active_mtu 4096"),
        ("jumbo-lost-behind-an-answer", "packets of 8928 bytes do not get through to 10.8.1.3", "raise the MTU"),
        ("image-without-efa", "EFA's software is not installed in this image (no /opt/amazon/efa", "aws-ofi-nccl"),
        ("interface-of-the-other-host", "owl has it, and kite calls it enp65s0f0", "eno2,enp65s0f0"),
        ("gloo-of-its-own-name", "the name of plover2 resolves there (/etc/hosts)", "GLOO_SOCKET_IFNAME"),
        ("collate-leaves-out", "my_collate leaves samples out", "keep the size of a batch in my_collate"),
        ("launcher-of-yesterday", "taken by torchrun (pid 40812), a launcher of an earlier run", "kill 40812"),
        ("value-with-a-unit", "NCCL_BUFFSIZE=16MB is no whole number: NCCL reads 16", "digits alone"),
    ],
)
def test_what_a_post_shows_decides(name: str, title: str, fix: str, tmp_path: Path) -> None:
    first = loud(LOGS[name], tmp_path)[0]
    assert title in first.title and fix in first.fix and first.severity is not Severity.NOTE


@pytest.mark.parametrize(
    ("name", "old", "new", "title"),
    [
        ("jumbo-lost-in-one-line", "3 packets transmitted, 0", "3 packets transmitted, 3", "do not get through"),
        ("jumbo-lost-behind-an-answer", "8900", "1200", "do not get through"),
        (
            "image-without-efa",
            "grep -i fabric",
            "grep -i fabric\n\tlibfabric.so.1 => /opt/lib/libfabric.so.1",
            "EFA's soft",
        ),
        ("interface-of-the-other-host", "enp65s0f0", "eno2     ", "kite calls it"),
        ("gloo-of-its-own-name", "tcp://127.0.1.1", "tcp://10.1.1.1", "Gloo takes"),
        ("collate-leaves-out", "r for r in rows if r is not None", "r for r in rows", "leaves samples out"),
        ("launcher-of-yesterday", ":29511  *:*", ":29512  *:*", "taken by torchrun"),
        ("value-with-a-unit", "16MB", "16777216", "otherwise than meant"),
    ],
)
def test_without_these_words_nothing_of_it_is_said(name: str, old: str, new: str, title: str, tmp_path: Path) -> None:
    assert all(title not in each.title for each in loud(LOGS[name].replace(old, new), tmp_path))


@pytest.mark.parametrize(
    "said",
    [
        "Hi all, our job fails since today. Log:",
        "Since the upgrade our training crashes with an error after some time. Here is the output:",
        "The job fails since the update of the driver, again and again. Full log:",
    ],
)
def test_a_sentence_of_who_posts_is_no_error(said: str, tmp_path: Path) -> None:
    assert loud(f"{said}\n\n```\n# ethtool -S eth0\n     rx_packets: 12\n```\n", tmp_path) == []


@pytest.mark.parametrize("said", ["RuntimeError: our job fails", "[rank0] we failed at step 3: error 5"])
def test_an_error_of_a_program_that_says_we_stays_one(said: str, tmp_path: Path) -> None:
    assert loud(f"{said}\n", tmp_path) != []
