"""What an operator must hear although no verdict can be given: one node, two, half of them slow, slow at times."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.fleet.doubts import Judged, doubts
from busbw.fleet.fabric import Fabric
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options
from busbw.fleet.results import Results
from busbw.fleet.trial import INSIDE, WITHIN, Deviation
from busbw.fleet.verdict import Verdict

MEASURES = """\
#!{python} -SE
import os, random, sys
if os.environ.get("BUSBW_RANK", "0") != "0":
    sys.exit()
nodes = os.environ["BUSBW_FLEET_NODES"].split(",")
level = 8.0 if set(nodes) & set({slow!r}) else 10.0
rng = random.Random(",".join(nodes))
with open(os.environ["BUSBW_FLEET_SAMPLES"], "w") as out:
    for number in range(int(os.environ["BUSBW_FLEET_REPEATS"])):
        at_times = 0.4 if "n3" in nodes and {flaky!r} and number % 3 == 1 else 1.0
        out.write(f"{{level * rng.gauss(1, 0.003) * at_times}}\\n")
"""


@pytest.mark.parametrize(
    ("hosts", "slow", "flaky", "said", "code"),
    [
        ("n1", [], False, "one node alone has no partner", 2),
        ("n[1-2]", ["n1"], False, "fewer than three groups", 0),
        ("n[1-3]", ["n1", "n2"], False, "of 3 nodes all but one may be slow", 0),
        ("n[1-8]", ["n1", "n2", "n3", "n4"], False, "half of n[1-8] are slow", 0),
        ("n[1-8]", [], True, "n3 is slow at times", 0),
        ("n[1-8]", [], False, "", 0),
        ("n[1-7]", ["n4"], False, "", 1),
    ],
)
def test_what_cannot_be_judged_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hosts: str, slow: list[str], flaky: bool, said: str, code: int
) -> None:
    program = tmp_path / "measures"
    program.write_text(MEASURES.format(python=sys.executable, slow=slow, flaky=flaky))
    program.chmod(0o755)
    words = ["fleet", "run", str(tmp_path / "f"), "--hosts", hosts, "--rails", "1", "--inside", "none", "--launcher",
             "local", "--program", str(program), "--repeats", "8", "--no-record", "--smallest-loss", "5"]  # fmt: skip
    assert main(words) == code
    heard = [line for line in capsys.readouterr().err.splitlines() if line.startswith("busbw: ")]
    heard = [line for line in heard if "samples spread so much" not in line]  # of three nodes drift is an error too
    assert [said in line for line in heard] == ([True] if said else [])


@pytest.mark.parametrize(("loss", "told"), [(0.5, True), (0.04, False)])
def test_nodes_that_lose_alike_in_everything_may_be_of_another_kind(loss: float, told: bool) -> None:
    nodes, known = tuple(f"n{at}" for at in range(6)), Knowledge()
    known.found[INSIDE][INSIDE, ("n1",), "nvlink"] = Deviation(loss, 0.002)
    known.found[WITHIN][WITHIN, ("n1", "n2"), "rail0"] = Deviation(loss, 0.002)
    known.tries.update(dict.fromkeys([*known.found[INSIDE], *known.found[WITHIN]], 3))
    verdicts = [Verdict("nvlink", "n1", "nvlink", loss, 0.002), Verdict("link", "n1", "rail0", loss + 0.01, 0.002)]
    said = doubts(Results(), Judged(Fabric(nodes, {}, 1), known, Options(), verdicts), expected=False)
    assert any("n1 loses about" in line for line in said) == told
    said = doubts(Results(), Judged(Fabric(nodes, {}, 1), known, Options(), verdicts[:1]), expected=False)
    assert not any("loses about" in line for line in said), "of one part only"
