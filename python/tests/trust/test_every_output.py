"""Secrets in what fleets, schedulers, history, searches and replays read: no page, export, file or word has them.

Half of the secrets have a form that public scanners know, without a name before it; half have a name and no form.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from scanner_forms import FORMS
from secret_forms import ALPHABETS, pieces
from test_canaries import failing_engine, of_others
from test_canaries import seen as seen_of_others
from test_secrets import ENGINE, busbw, everything

from busbw.base.secrets import hide, hide_random
from busbw.fleet.fabric import Fabric

DRAWS = 20
WORD = "otter47Gate"
"""No form betrays it: a name must."""
KNOWN = "CCIPAT_aB3dE5fG7hJ9kL2mN4pQ6r_0123456789abcdef0123456789abcdef01234567"
FORMED = "glagent-a1b2c3d4e5f6g7h8i9j0a1b2c3d4e5f6g7h8i9j0a1b2c3d4e5"
NAMED = f"MY_TOKEN={WORD} {FORMED}"


def drawn(name: str, seed: int) -> tuple[str, list[str]]:
    """The form with random bodies, each with a digit, and those of at least 12 characters."""
    import random

    draw = random.Random(f"{name} {seed}")
    alphabets = {**ALPHABETS, "HEX": "0123456789ABCDEF"}
    bodies: list[str] = []

    def body(found: re.Match[str]) -> str:
        alphabet, length = alphabets[found[1]], int(found[2])
        made = "".join(draw.choice(alphabet) for _ in range(length))
        made = made[: length // 2] + "7" + made[length // 2 + 1 :] if length > 8 else made
        bodies.extend([made] if length >= 12 and found[1] != "dig" else [])
        return made

    text = re.sub(r"\{(\w+) (\d+)\}", body, FORMS[name])
    return text, bodies or [part for part in re.findall(r"\w{8,}", text) if part not in FORMS[name]]


def shows(text: str, bodies: list[str]) -> bool:
    return any(piece in text for body in bodies for piece in pieces(body))


@pytest.mark.parametrize("name", FORMS)
def test_a_form_of_public_scanners_is_hidden_in_a_line_and_in_a_value(name: str) -> None:
    kept = 0
    for seed in range(DRAWS):
        text, bodies = drawn(name, seed)
        shown = (hide(f"pod-3 loader: uses {text} for region eu"), hide_random(text))
        kept += not any(shows(each, bodies) for each in shown)
    assert kept == DRAWS, FORMS[name]


@pytest.mark.skipif(not ENGINE.exists(), reason="the engine is not built")
def test_the_engine_hides_the_same_forms_in_variables(tmp_path: Path) -> None:
    values = [(name, *drawn(name, seed)) for name in FORMS for seed in range(2)]
    record = tmp_path / "record.jsonl"
    done = subprocess.run(
        [ENGINE, "all_reduce", "-b", "8", "-e", "8", "-t", "1", "-n", "1", "-w", "0", "--record", str(record)],
        env={**os.environ, **{f"NCCL_X{number}": text for number, (_, text, _) in enumerate(values)}},
        capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kept = json.loads(record.read_text().splitlines()[0])["environment"]
    shown = [name for number, (name, _, bodies) in enumerate(values) if shows(kept[f"NCCL_X{number}"], bodies)]
    assert len(shown) <= 2, shown


def found_in(texts: list[bytes]) -> list[str]:
    whole = b"\0".join(texts)
    return [each for each in (WORD, KNOWN, FORMED) if each.encode() in whole]


def test_results_of_a_fleet_and_lists_of_schedulers(tmp_path: Path) -> None:
    out, runs = tmp_path / "out", tmp_path / "runs"
    out.mkdir()
    results = tmp_path / "fleet.jsonl"
    head = {"busbw_fleet": 1, "nodes": ["a", "b", "c"], "pods": dict.fromkeys("abc", KNOWN), "rails": 1}
    line = {"round": 0, "kind": "within", "channel": "rail0", "samples": [], "reason": f"b: {NAMED} refused"}
    good = {"round": 0, "kind": "within", "channel": "rail0", "samples": [1.0, 1.1]}
    written = (head, {**line, "nodes": ["a", "b"]}, {**good, "nodes": ["a", "c"]})
    results.write_text("".join(f"{json.dumps(each)}\n" for each in written))
    pods = {"items": [{"metadata": {"name": "a", "labels": {"leaf": KNOWN, "token": WORD},
                                    "annotations": {"note": NAMED}}}]}  # fmt: skip
    (tmp_path / "pods.json").write_text(json.dumps(pods))
    (tmp_path / "topology.conf").write_text(f"SwitchName={KNOWN} Nodes=a,b\n# {NAMED}\nSwitchName=b token={WORD}\n")
    judge = ("fleet", "judge", str(results))
    said = [
        busbw(*judge, "--page", str(out / "x.html"), "--junit", str(out / "x.xml"), "--prometheus", str(out / "x.prom"),
              runs=runs),
        busbw(*judge, "--json", runs=runs),
        busbw("fleet", "plan", "--topology", str(tmp_path / "pods.json"), runs=runs),
        busbw("fleet", "plan", "--topology", str(tmp_path / "topology.conf"), runs=runs),
        busbw("fleet", "plan", "--hosts", f"n1,{KNOWN}", "--gpus-per-node", "1", runs=runs),
    ]  # fmt: skip
    assert len(list(out.iterdir())) == 3 and all(said)
    assert [found_in([each]) for each in said] == [[] for _ in said]
    assert [found_in([path.read_bytes()]) for path in sorted(out.iterdir())] == [[], [], []]


def test_pods_whose_labels_are_secrets_stay_apart() -> None:
    fabric = Fabric(("a", "b", "c"), {"a": KNOWN, "b": FORMED, "c": "leaf1"}, above={KNOWN: FORMED, "leaf1": "spine"})
    assert list(fabric.pods()) == ["***1", "***2", "leaf1"]
    assert fabric.above == {"***1": "***2", "leaf1": "spine"}


def test_history_shows_and_exports_records_of_others_without_secrets(tmp_path: Path) -> None:
    out, runs = tmp_path / "out", tmp_path / "runs"
    out.mkdir()
    busbw("import", str(of_others(tmp_path)), runs=runs)
    for number, path in enumerate(list(runs.rglob("record.jsonl"))):
        lines = path.read_text().splitlines()
        head = json.loads(lines[0])
        head["environment"] = {"NCCL_X": FORMED, "A_TOKEN": WORD}
        head["machine"] = {**(head.get("machine") or {}), "name": f"{KNOWN}"}
        path.write_text("\n".join([json.dumps(head), *lines[1:]]) + "\n")
        assert number < 5
    said = [
        busbw("history", "--page", str(out / "x.html"), runs=runs),
        busbw("history", "--json", runs=runs),
        busbw("history", "--export", "prometheus", runs=runs),
        busbw("runs", "list", runs=runs),
        busbw("runs", "sql", "SELECT * FROM runs", runs=runs),
    ]
    assert found_in(said) == found_in(list(everything(out))) == []
    assert seen_of_others(said) == seen_of_others(everything(out)) == []


@pytest.mark.skipif(not ENGINE.exists(), reason="the engine is not built")
def test_searches_whose_trials_fail_keep_and_say_no_secret(tmp_path: Path) -> None:
    engine, runs = failing_engine(tmp_path), tmp_path / "runs"
    engine.write_text(engine.read_text().replace("exit 3", f'echo "{NAMED}" >&2; echo "{KNOWN}"; exit 3'))
    words = ("all_reduce", "-b", "8", "-e", "8")
    said = [
        busbw("bisect", "--setting", "NCCL_ALGO=Ring,Tree", "--ranks", "1", "--budget", "3s", "--", *words, runs=runs,
              engine=engine),
        busbw("tune", "nccl", "--ranks", "1", "--budget", "3s", "--library", "cpu", "--output", str(runs / "x.conf"),
              *words, runs=runs, engine=engine),
        busbw("overlap", "--ranks", "1", "--budget", "3s", "--plot", str(runs / "x.html"), "--", *words, runs=runs,
              engine=engine),
        busbw("fleet", "run", str(tmp_path / "fleet.jsonl"), "--launcher", "local", "--hosts", "n[1-3]", "--inside",
              "none", "--gpus-per-node", "1", "--rails", "1", "--size", "1M", runs=runs, engine=engine),
    ]  # fmt: skip
    assert len(list(runs.rglob("*"))) > 3
    assert [found_in([each]) for each in said] == [[] for _ in said]
    assert found_in([*everything(runs), (tmp_path / "fleet.jsonl").read_bytes()]) == []


def test_tables_of_settings_and_files_that_are_refused(tmp_path: Path) -> None:
    bad = {
        "limits.toml": f'[[threshold]]\ncollective = "{KNOWN}"\nsource = "MY_TOKEN={WORD}"\n',
        "plan.toml": f'command = ["x", "--token", "{WORD}"]\n[[vary]]\nvariable = "{FORMED}"\nvalues = ["1"]\n',
        "matrix.txt": f"GPU0 {KNOWN}\n{NAMED}\n", "nccl.conf": f"NCCL_ALGO={KNOWN}\nNCCL_FOO={FORMED}\n{NAMED}\n",
        "table.conf": f"{KNOWN},1,2,3\n{NAMED}\n", "step.toml": f'name = "{KNOWN}"\ntoken = "{WORD}"\n',
    }  # fmt: skip
    for name, text in bad.items():
        (tmp_path / name).write_text(text)
    at = {name: str(tmp_path / name) for name in bad}
    (tmp_path / "plain.jsonl").write_text("")
    runs = tmp_path / "runs"
    said = [
        busbw("gate", str(tmp_path / "plain.jsonl"), "--thresholds", at["limits.toml"], runs=runs),
        busbw("experiment", at["plan.toml"], "--dry-run", runs=runs), busbw("topo", at["matrix.txt"], runs=runs),
        busbw("doctor", "--conf", at["nccl.conf"], runs=runs), busbw("tune", "show", at["table.conf"], runs=runs),
        busbw("predict", "step", at["step.toml"], runs=runs), busbw("predict", KNOWN, runs=runs),
        busbw("replay", f"/nowhere/{KNOWN}", runs=runs), busbw("watch", "--read", f"/nowhere/{KNOWN}", runs=runs),
        busbw("watch", "--otlp", f"http://me:{WORD}@h/v1", "--", "/no/such/program", runs=runs),
        busbw("history", "--push", f"http://me:{WORD}@127.0.0.1:9/x", runs=runs),
    ]  # fmt: skip
    assert all(said)
    assert [found_in([each]) for each in said] == [[] for _ in said]
