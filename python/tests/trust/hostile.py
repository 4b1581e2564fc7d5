"""Files that strangers might leave: bombs, deep nesting, endless lines, devices; each made when it is wanted."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import struct
import tarfile
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from hostile_fresh import FOLDERS, FRESH

from busbw.base.options import Option, actions_of, options_of, words_of
from busbw.cli.verbs import VERBS

# A process starts with the peak of memory of the one that it was forked from: pytest's must not count.
MEASURING = """
import json, os, subprocess, sys, time
popen = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
deadline, pid = time.monotonic() + float(os.environ.get("BUSBW_MOST_S", 120)), 0
while not pid:
    pid, status, used = os.wait4(popen.pid, os.WNOHANG)
    if not pid and time.monotonic() > deadline:
        popen.kill()
    time.sleep(0.01)
print(json.dumps([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


def packed(*chunks: bytes, times: int = 1) -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as file:
        for _ in range(times):
            for chunk in chunks:
                file.write(chunk)
    return buffer.getvalue()


def archive(name: str, content: bytes, *, pax: dict[str, str] | None = None, first: int = 0) -> bytes:
    """A bundle with one member, after another one of `first` zero bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT, compresslevel=1) as tar:
        if first:
            before = tarfile.TarInfo("first")
            before.size = first
            tar.addfile(before, io.BytesIO(bytes(first)))
        member = tarfile.TarInfo(name)
        member.size, member.pax_headers = len(content), pax or {}
        tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def gpus(count: int) -> bytes:
    each = (
        b'<pci busid="0000:%02x:%02x.0" class="0x030200"><gpu dev="%d" sm="90" rank="%d"/></pci>'
        % (n // 32 % 256, n % 32, n, n)
        for n in range(count)
    )
    return b'<system version="1"><cpu numaid="0" arch="x86_64" vendor="x">' + b"".join(each) + b"</cpu></system>"


def smi(count: int) -> bytes:
    each = (b'<gpu id="0000:%02X:00.0"><product_name>H200</product_name></gpu>' % (n % 256) for n in range(count))
    return b"<nvidia_smi_log><driver_version>1</driver_version>" + b"".join(each) + b"</nvidia_smi_log>"


LETTERS = str.maketrans("01", "xy")
LINE_200_MB = b'{"schema":"' + b"x" * 200_000_000
HOSTILE: dict[str, tuple[Callable[[], bytes], list[str]]] = {
    "dotted.toml": (lambda: b"a" + b".a" * 200_000 + b" = 1\n", ["gate", "GOOD", "--thresholds"]),
    "inline.toml": (lambda: b"x = " + b"{a.a.a=" * 40_000 + b"1" + b"}" * 40_000, ["gate", "GOOD", "--thresholds"]),
    "headers.toml": (
        lambda: b"".join(b"[a" + b".a" * 60 + b".t%d]\n" % n for n in range(5000)),
        ["gate", "GOOD", "--thresholds"],
    ),
    "two-byte-lines.log.gz": (lambda: packed(b"a\n" * 1_000_000, times=20), ["import", "--dry-run"]),
    "one-line.log.gz": (lambda: packed(b"a" * (1 << 20), times=1024), ["import", "--dry-run"]),
    "records.jsonl.gz": (lambda: packed(LINE_200_MB), ["import", "--dry-run"]),
    "line.jsonl": (lambda: LINE_200_MB, ["import", "--dry-run"]),
    "line.log": (lambda: b"# nThread 1\n" + b"1 " * 100_000_000, ["doctor"]),
    "indented.log": (
        lambda: b"".join(b" " * n + b"- x\n" for n in range(5000)),
        ["doctor", "--collect", "NEW", "--log"],
    ),
    "letters.log": (
        lambda: b"".join(format(n, "020b").translate(LETTERS).encode() * 48 + b"\n" for n in range(12_000)),
        ["doctor", "--collect", "NEW", "--log"],
    ),
    "deep.json": (lambda: b"[" * 5_000_000 + b"]" * 5_000_000, ["import", "--dry-run"]),
    "objects.jsonl": (lambda: b'{"schema":[' + b"{}," * 15_000_000 + b"{}]}\n", ["report"]),
    "number.jsonl": (lambda: b'{"schema":1,"x":' + b"9" * 1_000_000 + b"}\n", ["report"]),
    "tar-bomb.tar.gz": (lambda: archive("snapshot.json", b"{}", first=1 << 30), ["doctor"]),
    "pax.tar.gz": (lambda: archive("snapshot.json", b"{}", pax={"comment": "x" * 200_000_000}), ["doctor"]),
    "objects.tar.gz": (lambda: archive("snapshot.json", b'{"logs":[' + b"{}," * 15_000_000 + b"{}]}"), ["doctor"]),
    "deep.tar.gz": (lambda: archive("snapshot.json", b"[" * 10_000_000), ["doctor"]),
    "15000-gpus.xml": (lambda: gpus(15_000), ["topo"]),
    "15000-gpus-of-smi.xml": (lambda: smi(15_000), ["topo"]),
    "deep.xml": (lambda: b'<system version="1">' + b"<pci>" * 500_000, ["topo"]),
    "attributes.xml": (lambda: b"<system " + b" ".join(b'a%d="1"' % n for n in range(500_000)) + b"/>", ["topo"]),
    "lspci.txt": (lambda: b"0000:01:00.0 3D controller: NVIDIA H200\n" * 200_000, ["topo"]),
}


def members(count: int) -> bytes:
    """A bundle of so many empty files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        for number in range(count):
            tar.addfile(tarfile.TarInfo(f"logs/{number}"))
    return buffer.getvalue()


def linked() -> bytes:
    """A bundle whose members point out of it, and are devices and pipes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, kind, target in (("snapshot.json", tarfile.SYMTYPE, "/etc/passwd"), ("x", tarfile.CHRTYPE, ""),
                                   ("../../y", tarfile.REGTYPE, ""), ("p", tarfile.FIFOTYPE, ""),
                                   ("/etc/z", tarfile.LNKTYPE, "/etc/shadow")):  # fmt: skip
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            tar.addfile(member)
    return buffer.getvalue()


def zipped(name: str, block: bytes, times: int) -> bytes:
    """An archive as Windows makes them, with one large member."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(name, "w") as file,
    ):
        for _ in range(times):
            file.write(block)
    return buffer.getvalue()


def zeros_of_zstd(blocks: int) -> bytes:
    """A frame of so many blocks that each say 128 KiB of zeros in four bytes."""
    block = (1 << 17) << 3 | 1 << 1
    ends = (block | 1).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x58" + (block.to_bytes(3, "little") + b"\0") * (blocks - 1) + ends


def changing(path: Path, how: bytes) -> None:
    """A file that grows without an end while it is read, or is cut and written again; until its folder is gone."""
    line = b"h:1:1 [0] a.cc:1 NCCL WARN x\n" if how == b"a" else json.dumps(RUN).encode() + b"\n"
    path.write_bytes(line * 1000)

    def change() -> None:
        with suppress(OSError):
            for _ in range(100_000):
                with path.open("r+b") as file:
                    file.seek(0, 2 if how == b"a" else 0)
                    file.write(line * 1000)
                    if how == b"w":
                        file.truncate(len(line) // 2)
                time.sleep(0.002)

    threading.Thread(target=change, daemon=True).start()


RUN = {"schema": 1, "kind": "run", "run": "r", "tool": {"name": "busbw", "version": "1"}}
MORE: dict[str, Callable[[], bytes]] = {
    "digits.json": lambda: b'{"schema":1,"kind":"run","x":' + b"9" * 20_000_000 + b"}",
    "numbers.jsonl": lambda: json.dumps({**RUN, "ranks": [{"rank": 10**30}] * 100_000}).encode() + b"\n",
    "surrogates.jsonl": lambda: json.dumps({**RUN, "run": "\ud800" * 1000, "machine": "\udfff"}).encode() + b"\n",
    "control.log": lambda: b"\x1b]0;x\x07\x1b[2J\xe2\x80\xae" * 1_000_000,
    "nothing.log": lambda: b"\0" * 50_000_000,
    "empty-lines.log": lambda: b"\n" * 30_000_000,
    "wide.log": lambda: "NCCL WARN x\n".encode("utf-16") * 1_000_000,
    "laughs.xml": lambda: (
        b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaaaaaaaa">'
        + b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9))
        + b"]><system>&j;</system>"
    ),
    "nested.gz": lambda: packed(packed(packed(bytes(1 << 20), times=64), times=1)),
    "columns.csv": lambda: b"size,time," + b"x," * 3_000_000 + b"\n" + b"1,1," + b"1," * 3_000_000,
    "members.tar.gz": lambda: members(60_000),
    "links.tar.gz": linked,
    "bomb.zip": lambda: zipped("snapshot.json", bytes(1 << 20), 1024),
    "chunks.png": lambda: (
        b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 0x7FFFFFFF) + b"zTXt" + zlib.compress(bytes(1 << 28))
    ),
    "brackets.toml": lambda: b"x = " + b"[" * 3_000_000,
    "rows.log": lambda: (
        b"     1048576        262144     float     sum      -1    10.00  104.86  104.86      0\n" * 200_000
    ),
    "warnings.log": lambda: b"".join(
        b"h:%d:1 [0] a/b%d.cc:1 NCCL WARN failed %d\n" % (n, n, n) for n in range(200_000)
    ),
    "ranks.log": lambda: b"".join(
        b"#   Rank %6d Group  0 Pid 1 on h%d device 0 [0x01] x\n" % (n, n) for n in range(300_000)
    ),
    "bomb.xz": lambda: lzma.compress(bytes(1 << 28), preset=0),
    "bomb.bz2": lambda: bz2.compress(bytes(1 << 27), 1),
    "bomb.zst": lambda: zeros_of_zstd(20_000),
    "twice.jsonl": lambda: (json.dumps(RUN)[:-1] + ', "run": "s"' * 200_000 + "}").encode() + b"\n",
    "infinite.jsonl": lambda: (json.dumps(RUN)[:-1] + ', "x": [NaN, Infinity, -Infinity, 1e999]}\n').encode() * 1000,
    "zeros.toml": lambda: b'a = "\0"\n' * 1_000_000,
    "deep.yaml": lambda: b"".join(b" " * n + b"a:\n" for n in range(3000)),
    "line\n\x1b[31m\u202ename.log": lambda: b"NCCL WARN x\n",
    "frames.log": lambda: b'  File "a.py", line 1, in f\n' * 1_000_000,
}
SPECIAL: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "zero": lambda path: path.symlink_to("/dev/zero"),
    "random": lambda path: path.symlink_to("/dev/urandom"),
    "itself": lambda path: path.symlink_to(path),
    "sparse.log": lambda path: (path.write_bytes(b"NCCL WARN x\n"), os.truncate(path, 50 << 30)),
    "sparse.jsonl": lambda path: (path.write_bytes(json.dumps(RUN).encode()), os.truncate(path, 50 << 30)),
    "sparse.bin": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
    "year-1900.log": lambda path: (path.write_bytes(b"NCCL WARN x\n"), os.utime(path, (-2_208_988_800,) * 2)),
    "year-2100.jsonl": lambda path: (path.write_text(json.dumps(RUN) + "\n"), os.utime(path, (4_102_444_800,) * 2)),
    "second-name.jsonl": lambda path: (path.write_text(json.dumps(RUN) + "\n"), os.link(path, f"{path}.first")),
    "growing.log": lambda path: changing(path, b"a"),
    "shrinking.jsonl": lambda path: changing(path, b"w"),
    "terminal": lambda path: path.symlink_to("/dev/ptmx"),
    "memory": lambda path: path.symlink_to("/proc/self/mem"),
    "many": lambda path: (path.mkdir(), [(path / f"{n}.log").write_bytes(b"x\n") for n in range(20_000)]),
    "loop": lambda path: (path.mkdir(), (path / "a").symlink_to(path), (path / "b").mkdir(),
                          os.mkfifo(path / "b" / "record.jsonl"), (path / "b" / "x.log").symlink_to("/dev/zero")),
}  # fmt: skip


def make(name: str, path: Path) -> None:
    """One of all these, there."""
    if name in SPECIAL:
        SPECIAL[name](path)
    else:
        path.write_bytes(MORE[name]() if name in MORE else HOSTILE[name][0]())


MORE |= FRESH
SPECIAL |= FOLDERS
ALL = (*HOSTILE, *MORE, *SPECIAL)
_FIRST = {"baseline": ["make"], "fleet": [], "tune": ["nccl"]}
_NEEDS = {"gate": ["GOOD"], "report": ["GOOD"]}
_NO_FILES = {"COLLECTIVE", "make", "STEP", "JOB", "SHELL", "QUERY", "TAG"}


def reads(option: Option) -> bool:
    """Whether an option names a file or folder that is read."""
    return not option.writes and option.value in {"FILE", "DIR", "FOLDER"} and option.name not in {"cache", "share"}


def readers() -> Iterator[list[str]]:
    """Each command that reads, by the table of options: FOREIGN stands for the file, GOOD for a record of ours."""
    for verb in VERBS:
        for action in actions_of(verb.name) or ("",):
            known = "collective" if verb.module.endswith("measure") else f"{verb.name} {action}".strip()
            if known == "collective" and verb.name != "all_reduce":
                continue
            start = [verb.name, *([action] if action else []), *_FIRST.get(verb.name, [])]
            words = [each for each in words_of(known) if each.name not in _NO_FILES and each.count != "rest"]
            if words:
                yield [*start, "FOREIGN"]
            dry = [["--dry-run"]] if any(each.name == "dry-run" for each in options_of(known)) else [[]]
            for option in filter(reads, options_of(known)):
                before = _NEEDS.get(verb.name, []) if words else []
                yield [*start, *before, f"--{option.name}=FOREIGN", *dry[0]]
