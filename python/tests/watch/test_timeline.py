"""The page with the timeline: bounded, without a network, and with every call and wait that the recordings have."""

from __future__ import annotations

import base64
import json
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from made_recordings import Made, Row, write

from busbw.base.errors import UserError
from busbw.watch import timeline
from busbw.watch.recording import Recording, find


def page_of(folder: Path) -> tuple[str, dict[str, Any], bytes]:
    recordings = [Recording(path) for path in find(folder)]
    timeline.write_timeline(recordings, folder / "page.html")
    for each in recordings:
        each.close()
    page = (folder / "page.html").read_text()
    about = re.search(r'id="about">(.*?)</script>', page)
    data = re.search(r'id="data">(.*?)</script>', page)
    assert about
    assert data
    return page, json.loads(about[1]), zlib.decompress(base64.b64decode(data[1]))


def lane(about: dict[str, Any], data: bytes, at: int) -> list[tuple[float, float, float, int, str]]:
    one = about["lanes"][at]
    n, start = one["calls"], one["at"]
    steps = struct.unpack_from(f"<{n}I", data, start)
    lengths = struct.unpack_from(f"<{n}f", data, start + 4 * n)
    waits = struct.unpack_from(f"<{n}f", data, start + 8 * n)
    numbers = struct.unpack_from(f"<{n}I", data, start + 12 * n)
    shapes = struct.unpack_from(f"<{n}H", data, start + 16 * n)
    begins, now = [], one["first_us"]
    jumps = dict(one["jumps"])
    for place, step in enumerate(steps):
        now += step / 1000 + jumps.get(place, 0)
        begins.append(round(now, 3))
    return [
        (begin, round(length, 1), round(wait, 1), number, about["shapes"][shape]["text"])
        for begin, length, wait, number, shape in zip(begins, lengths, waits, numbers, shapes, strict=True)
    ]


def test_every_call_and_wait_is_in_its_lane(tmp_path: Path) -> None:
    for rank in range(2):
        calls = [Made(n * 10**6 + rank * 256_000, 64_000 if rank else 320_000) for n in range(3)]
        write(tmp_path, rank, [Row(rank, 2)], calls)
    page, about, data = page_of(tmp_path)
    assert [each["name"] for each in about["lanes"]] == ["rank 0, communicator 0", "rank 1, communicator 0"]
    what = "all_reduce of 256 float32, sum"
    assert lane(about, data, 0) == [(1000.0 * n, 320.0, 256.0, n + 1, what) for n in range(3)]
    assert lane(about, data, 1) == [(1000.0 * n + 256.0, 64.0, 0.0, n + 1, what) for n in range(3)]
    assert about["span_us"] == 2320.0
    assert "<td>all_reduce<td>6<td>0.00115 s<td>0.000768 s" in page


def test_the_page_fetches_nothing_and_ends_no_element_early(tmp_path: Path) -> None:
    path = write(tmp_path, 0, [Row(0, 2)], [Made(0)])
    content = bytearray(path.read_bytes())
    content[120:130] = b"</script>\0"
    path.write_bytes(content)
    page, _, _ = page_of(tmp_path)
    assert "default-src 'none'" in page
    assert not re.search(r"https?://", page)
    assert page.count("<script") == page.count("</script>") == 3


def test_pauses_of_hours_keep_their_places(tmp_path: Path) -> None:
    hour = 3600 * 10**9
    write(tmp_path, 0, [Row(0, 2)], [Made(0), Made(64), Made(5 * hour), Made(5 * hour + 6400)])
    _, about, data = page_of(tmp_path)
    begins = [each[0] for each in lane(about, data, 0)]
    assert begins == pytest.approx([0, 0.064, 1.8e10, 1.8e10 + 6.4], abs=0.01)


def test_what_is_too_much_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 0, [Row(0, 2)], [Made(n * 1000) for n in range(50)])
    monkeypatch.setattr(timeline, "MAX_CALLS", 20)
    page, about, _ = page_of(tmp_path)
    assert about["lanes"][0]["calls"] == 20
    assert "30 further calls are left out" in page


def test_where_it_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        timeline.write_timeline([], tmp_path / "no" / "t.html")


def test_the_verb_writes_it(tmp_path: Path) -> None:
    write(tmp_path, 0, [Row(0, 2)], [Made(0)])
    words = [sys.executable, "-m", "busbw", "watch", "--read", str(tmp_path), "--timeline", str(tmp_path / "t.html")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "1 calls are in" in done.stderr) == (0, True)
