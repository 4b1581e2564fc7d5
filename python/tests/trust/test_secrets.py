"""Fifty canaries, one for each place and kind of secret: none is in any byte that busbw writes or says."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
import string
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from secret_forms import FORMS, drawn, pieces

from busbw.base.secrets import RULES, hide, hide_random, hide_values, is_secret_name

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD") or ROOT / "build")
ENGINE = BUILD / "bin" / "busbw-engine"
NAMES = (
    "SLURM_JWT", "NCCL_TOKEN", "UCX_AUTH", "BUSBW_SECRET_TEXT", "CUDA_API_KEY", "OMPI_MCA_password", "SLURM_COOKIE",
    "NCCL_CREDENTIALS", "OMPI_MCA_orte_precondition_transports", "NCCL_SAS", "FI_PRIVATE_DATA", "OMP_PWD",
    "SLURM_ACCESS_KEY", "NCCL_SIGNATURE", "UCX_PASSPHRASE", "CUDA_ACCOUNTKEY", "BUSBW_PAT", "NCCL_DSN",
)  # fmt: skip
"""Variables with prefixes that a record keeps: only the rule for secrets can keep them out."""
VALUES = ("https://user:{}@host/x", "Bearer {}", "eyJhbGciOiJIUzI1.{}", "ghp_{}", "https://host/x?sig={}&a=1", "hf_{}")


def canary(number: int) -> str:
    """A text that nothing else has, the same in every run."""
    draw = random.Random(number)
    return "".join(draw.choice(string.ascii_letters + string.digits) for _ in range(24))


ENVIRONMENT = {name: canary(number) for number, name in enumerate(NAMES)}
IN_VALUES = {f"NCCL_X{number}": form.format(canary(100 + number)) for number, form in enumerate(VALUES)}
IN_COMMANDS = (
    "mpirun -x HF_TOKEN={} ./all_reduce_perf -b 8", "./all_reduce_perf --api-key {}", "export WANDB_API_KEY='{}'",
    "setenv AWS_SECRET_ACCESS_KEY {}", "curl -H 'Authorization: Bearer {}' http://x", 'json {{"password": "{}"}}',
    "git clone https://me:{}@example.org/x", "DefaultEndpointsProtocol=https;AccountKey={};Endpoint=x",
)  # fmt: skip
LOG = [
    *(f"h:1:1 [0] NCCL INFO {name} set by environment to {value}." for name, value in ENVIRONMENT.items()),
    *(f"h:1:1 [0] NCCL INFO {name} set by environment to {value}." for name, value in IN_VALUES.items()),
    *(f"$ {form.format(canary(200 + number))}" for number, form in enumerate(IN_COMMANDS)),
]
CANARIES = [canary(number) for start, count in ((0, len(NAMES)), (100, len(VALUES)), (200, len(IN_COMMANDS)))
            for number in range(start, start + count)]  # fmt: skip
TABLE = """# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 1 iters: 1 agg iters: 1 validation: 1
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    10.00  104.86  104.86      0    10.00  104.86  104.86      0
"""


def everything(folder: Path) -> Iterator[bytes]:
    """Every file below a folder, and what is in archives."""
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            yield data
            if data.startswith(b"\x1f\x8b"):
                yield gzip.decompress(data)
                with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                    for member in archive:
                        content = archive.extractfile(member)
                        yield content.read() if content else b""


def busbw(*words: str, runs: Path, engine: Path = ENGINE) -> bytes:
    """What a command says, on both streams."""
    environment = {**os.environ, **ENVIRONMENT, **IN_VALUES, "BUSBW_RUNS": str(runs), "BUSBW_ENGINE": str(engine)}
    environment["PYTHONPATH"] = str(ROOT / "python")
    done = subprocess.run(
        [sys.executable, "-m", "busbw", *words], env=environment, capture_output=True, timeout=120, check=False
    )
    return done.stdout + done.stderr


def found_in(texts: Iterator[bytes] | list[bytes]) -> list[str]:
    whole = b"\0".join(texts)
    return [each for each in CANARIES if each.encode() in whole]


@pytest.mark.skipif(not ENGINE.exists(), reason="the engine is not built")
def test_no_canary_is_in_records_bundles_imports_dry_runs_reports_and_errors(tmp_path: Path) -> None:
    log, out, runs = tmp_path / "in" / "job.log", tmp_path / "out", tmp_path / "runs"
    log.parent.mkdir()
    out.mkdir()
    log.write_text("\n".join(LOG) + "\n" + TABLE)
    passed = [f"--env={name}={value}" for name, value in list(ENVIRONMENT.items())[:3]]
    said = [
        busbw("all_reduce", "-b", "8", "-e", "64", "-t", "2", "-n", "2", runs=runs),
        busbw("run", "--ranks", "2", "all_reduce", "-b", "8", "-e", "8", "-n", "2", runs=runs),
        busbw("import", str(log), runs=runs),
        busbw("import", str(log), "-o", str(out / "record.jsonl"), runs=runs),
        busbw("doctor", "--log", str(log), "--collect", str(out / "bundle.tar.gz"), runs=runs),
        busbw("run", "--ranks", "2", "--launcher", "slurm", "--dry-run", *passed, "all_reduce", runs=runs),
        busbw("report", str(out / "record.jsonl"), "--output", str(out / "page.html"), runs=runs),
        busbw("import", f"https://user:{CANARIES[0]}@example.org/x.log", runs=runs),
    ]
    assert len(list(runs.rglob("record.jsonl"))) >= 3
    assert [found_in([each]) for each in said] == [[] for _ in said]
    assert found_in(everything(runs)) == []
    assert found_in(everything(out)) == []


def test_the_search_for_canaries_finds_those_in_archives(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("a")
        member.size = len(CANARIES[0])
        archive.addfile(member, io.BytesIO(CANARIES[0].encode()))
    assert found_in(everything(tmp_path)) == [CANARIES[0]]


@pytest.mark.skipif(not ENGINE.exists(), reason="the engine is not built")
def test_both_halves_keep_the_same_variables(tmp_path: Path) -> None:
    draw = random.Random(5)
    letters = ["TOKENIZER", "VALUE", "AUTHOR", "BYPASS"]
    letters += "TOKEN KEY PKEY SAS PWD AUTH DEBUG ALGO HCA PATCH PAT NCCL X9 MONKEYS DSNX JWTS".split()  # noqa: SIM905
    names = {"NCCL_" + draw.choice("_-.")[:1].join(draw.sample(letters, draw.randint(1, 3))) for _ in range(300)}
    names |= {"NCCL_PAT_ENABLE", "NCCL_PAT_ENABLED"}
    record = tmp_path / "record.jsonl"
    environment = {**os.environ, **dict.fromkeys(names, "v"), **IN_VALUES}
    done = subprocess.run(
        [ENGINE, "all_reduce", "-b", "8", "-e", "8", "-t", "2", "-n", "1", "--record", str(record)],
        env=environment, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kept = json.loads(record.read_text().splitlines()[0])["environment"]
    assert {name for name in names if name in kept} == {name for name in names if not is_secret_name(name)}
    assert {name: kept[name] for name in IN_VALUES} == {name: hide_values(value) for name, value in IN_VALUES.items()}


@pytest.mark.skipif(not ENGINE.exists(), reason="the engine is not built")
def test_the_engine_shows_no_part_of_a_value_that_python_hides_whole_or_wrapped(tmp_path: Path) -> None:
    draw = random.Random(17)
    values: dict[str, tuple[str, list[str]]] = {}
    for seed in range(4):
        for name in FORMS:
            text, bodies = drawn(name, seed)
            for shown in wrapped(text, draw):
                parts = [piece for body in bodies for piece in pieces(body) if piece in shown]
                values[f"NCCL_X{len(values)}"] = (shown, parts)
    # The signature of a token has no digits, and the rest of one stands in a line of its own.
    signature, rest = "qKzLmVbXcNtRwYpQsDfGhJkLzXcVbNmQwE", "ftdr1w2mben73aa76xdr"
    for value in (f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{signature}", f"aB3dE5gH7jK9mN1pQ3sT5.{signature}",
                  f"//npm.example/:_authToken=4eysp5hvr\r\n{rest}", f"my_token=4eysp5hvr\\\n  {rest}"):  # fmt: skip
        assert signature not in hide(value) and rest not in hide(value)
        values[f"NCCL_X{len(values)}"] = (value, [signature, rest])
    record = tmp_path / "record.jsonl"
    done = subprocess.run(
        [ENGINE, "all_reduce", "-b", "8", "-e", "8", "-t", "2", "-n", "1", "--record", str(record)],
        env={**os.environ, **{name: value for name, (value, _) in values.items()}},
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kept = json.loads(record.read_text().splitlines()[0])["environment"]
    shown_by_one = {
        value: kept[name]
        for name, (value, parts) in values.items()
        if any(part in kept[name] and part not in hide_values(value) for part in parts)
    }
    assert shown_by_one == {}
    assert signature not in record.read_text() and rest not in record.read_text()


def wrapped(text: str, draw: random.Random) -> Iterator[str]:
    """A line as it is, and as a terminal or a writer of logs breaks it over two."""
    yield text
    for how in ("\n", "\r\n", "\n    ", "\\\n"):
        at = draw.randrange(1, max(len(text), 2))
        yield text[:at] + how + text[at:]


def test_a_short_secret_of_a_command_is_in_no_record(tmp_path: Path) -> None:
    log, out = tmp_path / "x.log", tmp_path / "x.jsonl"
    log.write_text(f"$ mpirun -x NCCL_ALGO=Ring -x NCCL_TOKEN=otter -np 2 ./all_reduce_perf -b 8\n{TABLE}")
    busbw("import", str(log), "-o", str(out), runs=tmp_path / "runs")
    run = json.loads(out.read_text().splitlines()[0])
    assert run["environment"] == {"NCCL_ALGO": "Ring"}
    assert "otter" not in out.read_text()


@pytest.mark.parametrize("form", IN_COMMANDS)
def test_a_command_loses_its_secret_and_keeps_its_words(form: str) -> None:
    shown = hide(form.format("Zq3kV0w9Xx81Lm22Pp7sTtAa"))
    assert "Zq3kV0w9" not in shown
    assert re.sub(r"\W.*", "", form) in shown


# One name for each rule of names, and one text for each rule of values, which no other rule hides.
OF_NAMES = {
    "part TOKEN": "HF_TOKEN",
    "part SECRET": "CLIENT_SECRET",
    "part PASS": "DB_PASSWORD",
    "part CRED": "AWS_CREDENTIALS",
    "part JWT": "SLURM_JWT",
    "part COOKIE": "SESSION_COOKIE",
    "part AUTH": "PROXY_AUTHORIZATION",
    "part PRIVATE": "MY_PRIVATE_THING",
    "part SIGNATURE": "URL_SIGNATURE",
    "part PRECONDITION_TRANSPORTS": "OMPI_MCA_orte_precondition_transports",
    "word SAS": "AZURE_SAS",
    "word PWD": "DB_PWD",
    "word PW": "DB_PW",
    "word PSK": "WPA_PSK",
    "word PAT": "GH_PAT",
    "word DSN": "SENTRY_DSN",
    "ending KEY": "API_KEY",
    "ending KEYS": "ACCESS_KEYS",
    "ending SESSIONID": "MY_JSESSIONID",
    "ending SESSID": "MY_PHPSESSID",
}


def test_a_variable_of_nccl_whose_word_is_an_algorithm_is_shown() -> None:
    assert hide("NCCL_PAT_ENABLE=0, NCCL_PAT_ENABLE set by environment to 0") == (
        "NCCL_PAT_ENABLE=0, NCCL_PAT_ENABLE set by environment to 0"
    )
    assert is_secret_name("NCCL_PAT")
    assert is_secret_name("MY_NCCL_PAT_ENABLE")


@pytest.mark.parametrize("rule", OF_NAMES)
def test_each_rule_of_names_is_there_and_hides(rule: str) -> None:
    rules = RULES.read_text(encoding="utf-8").splitlines()
    assert rule in rules
    assert is_secret_name(OF_NAMES[rule])
    assert {line for line in rules if line.split(" ")[0] in {"part", "word", "ending"}} == set(OF_NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "https://someone:{}@host/path", "Authorization line: bearer {}", "https://host/blob?sig={}",
        "sent eyJhbGciOiJI.{}", "with ghp_{}", "with AKIA0123456789ABCDEF", "-----BEGIN RSA PRIVATE KEY-----{}",
        "AccountKey={}", "NCCL_NETRC=someone:{}@host", "as root:{}@10.0.0.5:22", "'db:{}@db.example.com'",
    ],
)  # fmt: skip
def test_each_kind_of_value_is_hidden_in_any_text(text: str) -> None:
    secret = "Zq3kV0w9Xx81Lm22Pp7sTtAa"
    shown = hide_values(text.format(secret))
    assert secret not in shown
    assert "0123456789ABCDEF" not in shown


@pytest.mark.parametrize(
    "text",
    ["NCCL_IB_PKEY=3", "the key is 5", "-x BUSBW_SECRET -x NCCL_DEBUG", "GPU-0f3c2d1e-aaaa-bbbb-cccc-0123456789ab",
     "/opt/nccl_2.18.3-1+cuda12.2/lib", "NCCL_ALGO=Ring,Tree",
     # With a colon and an @ and no password: mail, images, ports, GIDs, MACs, Lustre, versions.
     "mailto:alice1985@example.com", "Contact:bob.smith2@example.com", "Signed-off-by: Bob 2nd <bob2@example.com>",
     "image: pytorch:24.01-py3@sha256:0f3c", "node1:29500@ib0", "10.0.0.5:50051@eth0", "git@host1:me/repo2",
     "fe80:0000:0000:0000:0002:c903:0033:1001@mlx5_0", "0c:42:a1:5d:e1:9f@eth0", "10.0.0.1@o2ib:10.0.0.2@o2ib",
     "mds1:10.0.0.2@o2ib", "azureml:acpt-2.2-cuda12.1@latest", "npm:es6-shim@1.2", "gpu:a100@node1", "12:30:45@host"],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert hide(text) == text
    assert hide_random(text) == text


def test_a_long_text_is_searched_in_time() -> None:
    mixed = "ab1:" * 50_000 + "@h", "a:b@c " * 30_000, "user:" + "x" * 200_000 + "@"
    for text in (
        "a_" * 200_000,
        "A=b " * 50_000,
        "key=" * 50_000,
        "://" * 100_000,
        "eyJ" * 100_000,
        "-" * 200_000,
        *mixed,
    ):
        hide(text)
        hide_random(text)
