"""A row of gloo's benchmark that was cut off is none, and no traceback."""

from __future__ import annotations

from pathlib import Path

from world_abroad import abroad_shapes

from busbw.importers import ImportedSweep, import_path


def sweeps(path: Path, text: bytes) -> list[ImportedSweep]:
    path.write_bytes(text)
    found: list[ImportedSweep] = []
    import_path(path, found.append)
    return found


def test_a_row_that_was_cut_is_left_out(tmp_path: Path) -> None:
    whole = next(each.bytes for each in abroad_shapes() if each.name == "gloo-benchmark-new").rstrip()
    (before,) = sweeps(tmp_path / "x.log", whole + b"\n")
    lines = whole.split(b"\n")
    row = next(at for at in reversed(range(len(lines))) if lines[at].split()[:1] and lines[at].split()[0].isdigit())
    lines[row] = b" ".join(lines[row].split()[:5])
    (after,) = sweeps(tmp_path / "x.log", b"\n".join(lines) + b"\n")
    assert len(after.record().cases) == len(before.record().cases) - 1
