"""A text that is cut before it is shown shows no part of a secret that the cut goes through."""

from __future__ import annotations

import random
import re
import string
from pathlib import Path

import pytest

from busbw.base import secrets
from busbw.base.secrets import hide_in_file, hide_values, shortened
from busbw.cli.main import main
from busbw.torch_bench.output import environment

ROOT = Path(__file__).resolve().parents[3]
_B62 = string.ascii_letters + string.digits
LINES = (
    "h:1:1 [0] misc/x.cc:3 NCCL WARN something odd {} {} failed", "RuntimeError: NCCL error {} {} unhandled cuda error",
    "[rank0]: Error {} {}", "h:1:1 [0] NCCL INFO NCCL_FOO set by environment to {} {}", "slurmstepd: error: {} {}",
    "MPI_ABORT was invoked {} {}", "kernel: NVRM: Xid (PCI:0000:01:00): 79, {} {}", "OSError: [Errno 5] {} {}",
    "FATAL: container creation failed: {} {}", "pip: ERROR: {} {}", "ModuleNotFoundError: No module named '{} {}'",
)  # fmt: skip
CUTS = (80, 120, 160, 200, 300, 400, 500, 1024, 4096)
"""Where busbw cuts a line for a title, an evidence, a sentence."""


def drawn(seed: int) -> str:
    draw = random.Random(seed)
    return "hf_" + "".join(draw.choice(_B62) for _ in range(34))


def across(line: str, at: int, secret: str) -> str:
    """The line with a secret that begins a dozen characters before that place."""
    pad = at - line.index("{}") - 14
    return line.format(("word " * (pad // 5 + 1))[: max(pad, 0)].strip(), secret)


@pytest.mark.parametrize("line", LINES)
def test_the_doctor_shows_no_start_of_a_secret(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSBW_RUNS", str(tmp_path / "runs"))
    for at in CUTS:
        secret, log, page = drawn(at), tmp_path / "x.log", tmp_path / "x.html"
        log.write_text(across(line, at, secret) + "\n")
        main(["doctor", "--log", str(log), "-v", "--page", str(page)])
        told = capsys.readouterr()
        assert secret[:9] not in told.out + told.err + page.read_text(), at


@pytest.mark.parametrize("secret", ["https://me:otter-47Gate@host/x", "https://x/?sig=otter-47Gate", drawn(1)])
def test_a_cut_anywhere_in_a_secret_shows_none_of_it(secret: str) -> None:
    body = secret.partition("me:")[2] or secret.partition("sig=")[2] or secret[3:]
    for start in range(30):
        text = "a " * 20 + "b" * start + " " + secret + " c" * 400
        for most in range(len(text) - 830, len(text) - 700):
            shown = shortened(text, most)
            assert len(shown) <= most
            # What is printed is searched once more, which finds whole ones.
            assert body[:4] not in hide_values(shown), (start, most)


def test_what_is_no_secret_is_cut_as_it_stands() -> None:
    for text in (
        "/opt/nccl/lib:/usr/lib/x86_64-linux-gnu:/opt/amazon/efa/lib64",
        "NCCL WARN Call to connect failed",
        "a" * 99,
    ):
        for most in range(len(text) + 2):
            assert shortened(text, most) == text[:most]


def test_a_variable_is_hidden_before_it_is_cut() -> None:
    for at in (4060, 4080, 4090, 4095):
        kept = environment({"NCCL_X": "w " * (at // 2) + drawn(at), "NCCL_Y": "w " * (at // 2) + "https://a:otter7@h/"})
        assert drawn(at)[:9] not in kept["NCCL_X"]
        assert "a:o" not in kept["NCCL_Y"]


def test_a_line_that_is_read_in_parts_shows_no_secret_at_their_ends(tmp_path: Path) -> None:
    longest = secrets._LONGEST_LINE
    for at in (longest - 12, 2 * longest - 20, longest - 4096 - 10):
        path = tmp_path / "output.txt"
        path.write_text("w " * (at // 2) + drawn(at) + " end " + "w " * longest + "\nnext\n")
        size = path.stat().st_size
        hide_in_file(path)
        text = path.read_text()
        assert drawn(at)[:12] not in text and drawn(at)[-12:] not in text
        assert text.endswith("\nnext\n") and text.count("*") == 3 and len(text) == size - 37 + 3


def test_nobody_cuts_a_line_of_others_without_looking_for_secrets() -> None:
    """`clean(text)[:200]` and `{line.strip()[:80]!r}` show the start of a secret; `shortened` does not."""
    cut = re.compile(r"clean\((?:text|line|told|reason|problem)\)\[:|\{(?:line|text|raw)[.\w()]*\[:\d+\](?:!r)?\}")
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted((ROOT / "python" / "busbw").rglob("*.py"))
        for line in path.read_text().splitlines()
        if cut.search(line)
    ]
    assert found == []
