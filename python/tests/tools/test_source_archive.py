"""The source archive of a commit has the same bytes twice, and its bill of materials names every file by its hash."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
IS_CLONE = (ROOT / ".git").exists()


def make(folder: Path) -> tuple[bytes, bytes]:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "source_archive", "--output", folder],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (archive,), (bill,) = folder.glob("*.tar.gz"), folder.glob("*.spdx.json")
    assert hashlib.sha256(archive.read_bytes()).hexdigest() in done.stdout
    return archive.read_bytes(), bill.read_bytes()


@pytest.mark.skipif(not IS_CLONE, reason="no git clone")
def test_the_archive_is_the_same_twice_and_the_bill_names_what_is_in_it(tmp_path: Path) -> None:
    assert make(tmp_path / "one") == make(tmp_path / "two")
    (path,), (bill,) = (tmp_path / "one").glob("*.tar.gz"), (tmp_path / "one").glob("*.spdx.json")
    document = json.loads(bill.read_bytes())
    named = {each["fileName"]: each["checksums"][1]["checksumValue"] for each in document["files"]}
    found = {}
    with tarfile.open(path) as tar:
        for member in tar:
            assert (member.uid, member.gid, member.uname, member.mode & 0o022) == (0, 0, "", 0)
            content = tar.extractfile(member) if member.isfile() else None
            data = content.read() if content else member.linkname.encode()
            found["./" + member.name.partition("/")[2]] = hashlib.sha256(data).hexdigest()
    assert found == named
    assert {"numpy", "scikit-build-core", "busbw"} <= {each["name"] for each in document["packages"]}
    identities = {each["SPDXID"] for each in (*document["files"], *document["packages"], document)}
    assert {each["relatedSpdxElement"] for each in document["relationships"]} <= identities
