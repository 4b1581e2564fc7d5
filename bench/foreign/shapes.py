"""Foreign files of every shape, up to a size: what people give to a tool by mistake, and what is made to be dear."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import random
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TABLE_WORDS = ("time_us", "latency", "busbw", "algbw", "size", "count", "(us)", "bandwidth", "_ms", "float", "Size | ")
FAULT_WORDS = ("error", "failed", "timeout", "aborted", "refused", "Xid", "fatal", "killed", "NCCL WARN", "exception")
Lines = Callable[[random.Random], str]


@lru_cache(maxsize=1)
def _vocabulary() -> list[str]:
    r = random.Random("words that nobody wrote")
    return ["".join(r.choices(LETTERS, k=r.randint(2, 10))) for _ in range(100_000)]


def word(r: random.Random) -> str:
    """A word that nobody wrote."""
    return r.choice(_vocabulary())


def words(r: random.Random, count: int) -> str:
    """Such words with blanks between them."""
    return " ".join(r.choices(_vocabulary(), k=count))


def mixed(r: random.Random, count: int, known: tuple[str, ...], of_them: int) -> str:
    """Such words with some known ones among them."""
    found = [*[word(r) for _ in range(count)], *r.sample(known, of_them)]
    r.shuffle(found)
    return " ".join(found)


def _who(r: random.Random) -> str:
    return f"h{r.randrange(90)}:{r.randrange(9999)}:{r.randrange(9999)} [{r.randrange(8)}]"


def _code(r: random.Random) -> str:
    name = word(r)
    return r.choice(
        (
            f"    def {name}(self, {word(r)}: int) -> {word(r)}:",
            f"        self.{name} = {word(r)}({word(r)}, time_us={r.random()})",
            f"    # {words(r, 8)}",
            f"        raise {name.title()}Error(f'{words(r, 4)}')",
            f"        if latency_us > {r.random()}:",
            f"    return {name}['{word(r)}'] | {word(r)}",
            f'    """{words(r, 6)}."""',
            f"static int {name}(struct {word(r)} *p) {{",
        )
    )


def _traceback(r: random.Random) -> str:
    return r.choice(
        (
            "Traceback (most recent call last):",
            f'  File "{word(r)}.py", line {r.randrange(99)}, in {word(r)}',
            f"    {word(r)}({words(r, 3)})",
            f"{word(r).title()}Error: {words(r, 6)}",
        )
    )


def _lines(make: Lines, r: random.Random, count: int) -> bytes:
    return "".join([make(r) + "\n" for _ in range(count)]).encode()


def _sql(r: random.Random) -> str:
    return f"INSERT INTO {word(r)} VALUES ({r.randrange(99999)}, '{words(r, 4)}', {r.random():.6f}, NULL);"


LINES: dict[str, Lines] = {
    "words": lambda r: words(r, 10),
    "short-words": word,
    "table-words": lambda r: mixed(r, 7, TABLE_WORDS, 2),
    "fault-words": lambda r: mixed(r, 6, FAULT_WORDS, 3),
    "both-words": lambda r: mixed(r, 6, (*FAULT_WORDS, *TABLE_WORDS), 4),
    "warnings": lambda r: f"WARNING: {words(r, 8)} failed with {r.randrange(999)}",
    "nccl-warn": lambda r: f"{_who(r)} misc/{word(r)}.cc:{r.randrange(999)} NCCL WARN {words(r, 8)}",
    "nccl-info": lambda r: f"{_who(r)} NCCL INFO {words(r, 9)}",
    "nccl-channels": lambda r: (
        f"{_who(r)} NCCL INFO Channel {r.randrange(99)}/0 : {r.randrange(9999)}[{word(r)}] -> "
        f"{r.randrange(9999)} via P2P/{word(r)}"
    ),
    "nccl-init": lambda r: (
        f"{_who(r)} NCCL INFO comm 0x{r.randrange(1 << 40):x} rank {r.randrange(9999)} nranks "
        f"{r.randrange(9999)} cudaDev 0 busId {r.randrange(99)}000 commId 0x{r.randrange(1 << 40):x} - Init COMPLETE"
    ),
    "code": _code,
    "csv": lambda r: ",".join([word(r), str(r.random()), words(r, 2), str(r.randrange(99)), word(r)]),
    "csv-of-figures": lambda r: f"{word(r)},{1 << r.randrange(30)},{r.random():.3f},{r.random():.3f},{word(r)}",
    "tabs": lambda r: "\t".join(words(r, 8).split()),
    "pipes": lambda r: "| " + " | ".join(words(r, 6).split()) + " |",
    "json-lines": lambda r: json.dumps({word(r): words(r, 3), "time": r.random(), "message": words(r, 5)}),
    "json-results": lambda r: json.dumps({"busbw": r.random(), "algbw": r.random(), "size": word(r), word(r): 1}),
    "docker-log": lambda r: json.dumps({"log": words(r, 8) + "\n", "stream": "stderr", "time": "2026-01-01T00:00:00Z"}),
    "markdown": lambda r: r.choice(("# ", "| ", "**", "```", "- ", "")) + mixed(r, 7, TABLE_WORDS, 1),
    "html": lambda r: f"<tr><td>{words(r, 2)}</td><td>{r.random()}</td><td><b>busbw</b> {word(r)}</td></tr>",
    "nccl-tests-heads": lambda r: f"# nThread {r.randrange(9)} nGpus 1 {words(r, 5)}",
    "nccl-tests-rows": lambda r: (
        f" {1 << r.randrange(30)} {r.randrange(9999)} float sum -1 {r.random()} {r.random()} "
        f"{r.random()} 0 {r.random()} {word(r)}"
    ),
    "rows-behind-words": lambda r: (
        f"{word(r)} {word(r)}> {1 << r.randrange(30)} {r.randrange(9999)} float sum -1 "
        f"{r.random()} 1.0 1.0 0 1.0 1.0 1.0 0"
    ),
    "tracebacks": _traceback,
    "kernel": lambda r: (
        f"[{r.randrange(99999)}.{r.randrange(999999):06}] {word(r)}: {words(r, 6)} failed (-{r.randrange(99)})"
    ),
    "syslog": lambda r: (
        f"Nov 28 1{r.randrange(10)}:{r.randrange(10, 60)}:00 {word(r)} {word(r)}[{r.randrange(9999)}]: {words(r, 6)}"
    ),
    "prefixed": lambda r: f"[{r.randrange(99)},{r.randrange(4999)}]<stdout>: {words(r, 7)}",
    "named-values": lambda r: " ".join([f"{word(r)}={r.random():.3f}" for _ in range(6)]),
    "figures-with-units": lambda r: (
        f"{word(r)} took {r.random():.2f} ms for {r.randrange(99)} MB at {r.random():.2f} GB/s"
    ),
    "sql": _sql,
    "chinese": lambda r: "".join([chr(r.randrange(0x4E00, 0x9FA0)) for _ in range(25)]),
    "escapes": lambda r: f"\x1b[3{r.randrange(8)}m{words(r, 4)}\x1b[0m {words(r, 3)}",
    "returns": lambda r: "\r".join([words(r, 3) for _ in range(3)]),
    "hashes": lambda r: hashlib.sha256(r.randbytes(8)).hexdigest(),
    "paths": lambda r: "/" + "/".join(words(r, 6).split()),
    "xml": lambda r: f'<{word(r)} {word(r)}="{r.random()}"><{word(r)}/></{word(r)}>',
    "yaml": lambda r: f"{' ' * r.randrange(8)}{word(r)}: {words(r, 5)}",
    "assignments": lambda r: f"export {word(r).upper()}_{word(r).upper()}={words(r, 3)}",
    "osu": lambda r: f"# OSU MPI {word(r)} Latency Test {words(r, 4)}",
    "questions": lambda r: f"{words(r, 5)}? {words(r, 5)}! size time latency (us) busbw,{word(r)}",
}
"""One line of each shape."""


def _of_lines(make: Lines, r: random.Random, size: int) -> Iterator[bytes]:
    written = 0
    while written < size:
        line = (make(r) + "\n").encode()
        written += len(line)
        yield line


def _deep(size: int) -> bytes:
    return b'{"a":' * (size // 6) + b"1"


def _big_json(r: random.Random, size: int) -> bytes:
    rows = [{"name": words(r, 3), "dur": r.random(), "args": {"size": r.randrange(99)}} for _ in range(size // 75)]
    return json.dumps({"traceEvents": rows}).encode()


def _json_array(r: random.Random, size: int) -> bytes:
    return json.dumps([{word(r): r.random(), "busbw": r.random(), "size": 1} for _ in range(size // 70)]).encode()


WHOLE: dict[str, Callable[[random.Random, int], bytes]] = {
    "one-line": lambda r, size: (words(r, 50_000) * (size // 340_000 + 1)).encode()[:size],
    "deep-json": lambda _, size: _deep(size),
    "big-json": _big_json,
    "json-array": _json_array,
    "binary": lambda r, size: r.randbytes(size),
    "binary-text": lambda r, size: r.randbytes(size).replace(b"\0", b"a"),
    "high-bytes": lambda r, size: bytes(r.choices(range(128, 256), k=size)),
    "base64": lambda r, size: base64.encodebytes(r.randbytes(size * 3 // 4)),
    "base64-line": lambda r, size: base64.b64encode(r.randbytes(size * 3 // 4)),
    "utf-16": lambda r, size: _lines(LINES["words"], r, size // 140).decode().encode("utf-16"),
    "utf-16-faults": lambda r, size: _lines(LINES["fault-words"], r, size // 130).decode().encode("utf-16"),
    "newlines": lambda _, size: b"\n" * size,
    "two-bytes": lambda _, size: b"x\n" * (size // 2),
    "numbers": lambda r, size: "".join([f"{r.random()}\n" for _ in range(size // 20)]).encode(),
    "gz-words": lambda r, size: gzip.compress(_lines(LINES["words"], r, size // 65), 1),
    "gz-bomb": lambda _, size: gzip.compress(b"a" * (64 * size)),
    "gz-of-lines": lambda r, size: gzip.compress(_lines(LINES["fault-words"], r, 1) * (size // 60), 9),
    "gz-of-members": lambda _, size: gzip.compress(b"a" * 1023 + b"\n") * (size // 1024),
    "brackets": lambda _, size: b"[" * size,
    "quotes": lambda _, size: b'"\\"' * (size // 3),
    "hash-signs": lambda _, size: b"#\n" * (size // 2),
    "bars": lambda _, size: b"| | | | |\n" * (size // 10),
}
"""Files that are not made of lines of one shape."""


def names() -> list[str]:
    """All shapes."""
    return [*LINES, *WHOLE]


def is_set_aside(name: str) -> bool:
    """Whether nobody tuned to it: half of them, by a hash of the name."""
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 0


def write(name: str, path: Path, size: int, seed: int = 1) -> None:
    """A file of that shape, of about `size` bytes."""
    r = random.Random(f"{name} {seed}")
    with path.open("wb") as file:
        if name in LINES:
            file.writelines(_of_lines(LINES[name], r, size))
        else:
            file.write(WHOLE[name](r, size))
