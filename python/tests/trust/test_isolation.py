"""Children of ours that are Python programs load no module from the folder that somebody works in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from busbw.launch.supervise import Child, Rules, Supervisor


@pytest.mark.skipif(sys.version_info < (3, 11), reason="PYTHONSAFEPATH came with Python 3.11")
def test_a_module_in_the_current_folder_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "argparse.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')")
    with (tmp_path / "output").open("wb") as output:
        child = Child("a child", [sys.executable, "-m", "json.tool", "--help"], dict(os.environ), output=output)
        assert Supervisor([child], Rules()).run() == 0
    assert not (tmp_path / "run").exists()
