"""nccl.conf is read as NCCL reads it, which trims nothing and never overrides."""

from __future__ import annotations

import pytest

from busbw.machine.nccl.conf import Origin, common, conf_paths, in_force, read_conf

RETURN = "the carriage return at the end (a file of Windows)"


def test_comments_and_empty_lines_set_nothing_and_values_keep_their_equals_signs() -> None:
    conf = read_conf("# NCCL_A=1\n\nNCCL_B=x=y\n", "c")
    assert [(each.name, each.value, each.line) for each in conf.entries] == [("NCCL_B", "x=y", 3)]
    assert conf.problems == ()


@pytest.mark.parametrize(
    ("line", "says", "sets"),
    [
        ("NCCL_ALGO = Ring", "becomes part of its name", False),
        ("export NCCL_ALGO=Ring", "'export' becomes part of the name", False),
        ("  # NCCL_ALGO=Ring", "does not begin in the first column", False),
        ("NCCL_ALGO Ring", "has no =", False),
        ("2=3", "is no name", False),
        ("NCCL_ALGO=Ring ", "white space around the value", True),
        ("NCCL_ALGO='Ring'", "the quotes become part", True),
        ("NCCL_BUFFSIZE=4M", "is no whole number: NCCL reads 4", True),
        ("NCCL_IB_TIMEOUT=abc", "is no whole number: NCCL reads 0", True),
        ("NCCL_MAX_NCHANNELS=016", "as octal: 14", True),
        ("NCCL_ALGO=Ringg", "'Ringg', which names no algorithm", True),
        ("NCCL_ALGO=allgather:nvls,reducescatter:nvls", "'reducescatter:nvls', which names no algorithm", True),
        ("NCCL_PROTO=^LL129", "'LL129', which names no protocol", True),
        ("NCLC_ALGO=Tree", "NCCL_ALGO is", True),
        ("NCCL_BUFFERSIZE=1", "NCCL_BUFFSIZE is", True),
        ("NCCL_IB_HCAS=mlx5_0", "NCCL_IB_HCA is", True),
        ("nccl_debug_subsys=NET", "NCCL_DEBUG_SUBSYS is", True),
        ("NCCL_ALGO=" + "x" * 2000, "is cut after 1023", True),
    ],
)
def test_lines_that_nccl_reads_otherwise_than_meant_are_named(line: str, says: str, sets: bool) -> None:
    conf = read_conf(f"NCCL_DEBUG=WARN\n{line}\n", "c")
    [problem] = conf.problems
    assert says in problem.text and problem.line == 2
    assert len(conf.entries) == 1 + sets


@pytest.mark.parametrize(
    "line",
    [
        "NCCL_BUFFSIZE=0x400000", "NCCL_CROSS_NIC=", "NCCL_IB_TC=106", "NCCL_P2P_DISABLE=0", "NCCL_P2P_LEVEL=NVL",
        "NCCL_ALGO=ring,CollnetDirect;allreduce:^tree", "NCCL_PROTO=^LL128;allreduce:LL128", "NCCL_IB_HCA=mlx5_0",
        "NCCL_IB_SL=3", "RCCL_MSCCL_ENABLE=0", "NCCL_MY_OWN_PLUGIN=x", "NODE_RANK=0", "PATH=/usr/bin", "NCCL_ALGO=^",
        "NCCL_NET_GDR_LEVEL=SYS", "NCCL_NSOCKS_PERTHREAD=4", "NCCL_CTA_POLICY=DEFAULT", "NCCL_X=1",
    ],
)  # fmt: skip
def test_values_that_nccl_reads_as_written_are_no_problem(line: str) -> None:
    assert read_conf(f"{line}\n", "c").problems == ()


def test_the_environment_wins_then_the_first_file_and_the_losers_are_kept() -> None:
    user, host = read_conf("NCCL_ALGO=Tree\nNCCL_PROTO=LL\n", "user"), read_conf("NCCL_ALGO=Ring\nNCCL_X=1\n", "host")
    found = in_force({"NCCL_PROTO": "Simple"}, [user, host])
    assert {name: each.value for name, each in found.items()} == {
        "NCCL_PROTO": "Simple", "NCCL_ALGO": "Tree", "NCCL_X": "1",
    }  # fmt: skip
    assert found["NCCL_ALGO"].hidden == (("Ring", Origin("host", 1, conf=True)),)
    assert found["NCCL_PROTO"].hidden == (("LL", Origin("user", 2, conf=True)),)


@pytest.mark.parametrize(
    ("version", "value", "says"),
    [
        ((2, 29), "Ring\r", [f"{RETURN} becomes part of the value of NCCL_ALGO"]),
        ((2, 30), "Ring", []),
        (
            None,
            "Ring",
            [f"up to NCCL 2.29 {RETURN} becomes part of the value of NCCL_ALGO; NCCL 2.30 leaves it out"],
        ),
    ],
)
def test_the_version_decides_what_becomes_of_a_carriage_return(
    version: tuple[int, int] | None, value: str, says: list[str]
) -> None:
    found = read_conf("# all\r\nNCCL_ALGO=Ring\r\n\r\nNCCL_PROTO=LL\n", "nccl.conf", version)
    assert [(entry.name, entry.value, entry.line) for entry in found.entries] == [
        ("NCCL_ALGO", value, 2),
        ("NCCL_PROTO", "LL", 4),
    ]
    assert [each.text for each in found.problems] == says


def test_what_follows_a_long_line_is_a_line_of_its_own_from_2_30_on() -> None:
    text = "NCCL_IB_HCA=" + "x" * 4083 + "NCCL_ALGO=Ring\n"
    assert [each.name for each in read_conf(text, "c", (2, 29)).entries] == ["NCCL_IB_HCA"]
    assert [each.name for each in read_conf(text, "c", (2, 30)).entries] == ["NCCL_IB_HCA", "NCCL_ALGO"]
    [problem] = read_conf(text, "c").problems
    assert problem.text.endswith("NCCL 2.30 takes what follows the 4,095th of the line for a line of its own")


def test_the_users_file_lies_in_the_home_that_the_version_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busbw.machine.nccl.conf._home", lambda: "/home/me")
    variable, both = {"HOME": "/scratch"}, ("/scratch/.nccl.conf", "/home/me/.nccl.conf", "/etc/nccl.conf")
    assert conf_paths(variable) == both
    assert conf_paths(variable, (2, 29)) == both[1:] and conf_paths(variable, (2, 30)) == (both[0], both[2])
    assert conf_paths({"HOME": "/home/me"}) == both[1:] and conf_paths({}, (2, 30)) == both[2:]
    named = {"NCCL_CONF_FILE": "my.conf", **variable}
    assert conf_paths(named) == conf_paths(named, (2, 23)) == ("my.conf", both[2])
    assert conf_paths(named, (2, 22)) == both[1:]  # it does not know that variable


@pytest.mark.parametrize(
    ("versions", "is_common"),
    [
        (["2.30.7+cuda13.0", 23003], (2, 30)),
        ([22907, "2.25.1"], (2, 25)),
        (["2.29.7", "2.30.3"], None),
        (["2.30.3", None], None),
        ([2708, "2.21.5"], (2, 7)),
        ([], None),
        (["unknown"], None),
    ],
)
def test_versions_with_the_same_rules_have_one_in_common(
    versions: list[str | int | None], is_common: tuple[int, int] | None
) -> None:
    assert common(versions) == is_common
