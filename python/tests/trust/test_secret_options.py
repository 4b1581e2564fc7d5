"""Secrets of an option, a block or the next line, in Python's half and in the variables that the engine keeps."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from busbw.base.secrets import hide

BUILD = Path(os.environ.get("BUSBW_BUILD") or Path(__file__).resolve().parents[3] / "build")
ENGINE = BUILD / "bin" / "busbw-engine"
SECRETS = ("otter-47Gate", "Kettle_28reed#", "winter.63moon!")
SHAPES = (
    "mpiexec -env MY_SECRET {} -np 4 ./t", "mpiexec.hydra -genv DB_PASSWORD {} -genv NCCL_DEBUG INFO ./t",
    "openssl rsa -in k.pem -passin pass:{} -out k2.pem", "openssl pkcs12 -export -passout pass:{} -in c.pem",
    "keytool -genkey -storepass {} -alias a", "keytool -genkey -keypass {}", "x --redis-password {} --port 6379",
    "x --db-password={} --port 1", "db:\n  password: >-\n    {}", "password: |\n  {}\nuser: me",
    "[{{name: MLFLOW_TRACKING_PASSWORD, value: {}}}]", "- name: REDIS_PASSWORD\n  value: \"{}\"",
    "Enter passphrase for key '/home/user/.ssh/id_rsa': {}", "password = \"\"\"\n{}\n\"\"\"",
    '{{"user": "ml",\n "passwd":\n   "{}"}}', "%22password%22%3A%22{}%22", "snmpwalk -v3 -u u -A {} host",
    "snmpwalk -v3 -u u -A x -X {} host", "gcloud auth activate-refresh-token me 1//0{}",
    "https://conda.example.org/t/{}/private/linux-64",
)  # fmt: skip
DRAWN = "antheljtq2k7x4v5w6y3z2b7n4m5c6d3f2g7h4j5k6l3p2q7r4s5t6u3v2w7"
RESOURCE = f"ocid1.instance.oc1.eu-frankfurt-1.{DRAWN}"
"""What Oracle's cloud calls a machine."""
HARMLESS = (
    RESOURCE, f"instance {RESOURCE}, tenancy ocid1.tenancy.oc1..{DRAWN} is ready", f'{{"id": "{RESOURCE}"}}',
    "mpiexec -genv NCCL_DEBUG INFO -genv HF_TOKEN_PATH /etc/t -n 2 ./t", "x --token-file /etc/t --auth none --port 1",
    "x --tokenizer llama --max-len 4096", "openssl x -passin file:/etc/p", "snmpwalk -v3 -a SHA -x AES host",
    "max_new_tokens=512", "AuthType=auth/munge", "AuthInfo=socket=/var/run/munge", "x --max-tokens=4096 y",
    "token_type: bearer1x", "password_file=/etc/secret/pw", "KEY_LENGTH=2048", "passwordRef=vaultname", "TOKEN=99",
    "token_ids=[1, 2, 3]", "secret_path: vault/data/x1", "token_type_ids=tensor([0, 1])",
    "API_TOKEN=true", "x --auth-method basic1",
    "name: NCCL_DEBUG, value: INFO", "text: |\n  password rules follow", "https://h/t/step-12/loss",
)  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_a_short_secret_is_hidden(shape: str) -> None:
    for secret in _secrets(shape):
        assert secret not in hide(shape.format(secret))


def test_a_token_of_a_bot_without_digits_is_hidden_in_an_address() -> None:
    assert hide("https://api.telegram.org/bot3239898712:AAmqZNfNgypZeGraCxCULv-WbxYdoZPnsq/send") == (
        "https://api.telegram.org/bot3239898712:***/send"
    )


@pytest.mark.parametrize("before", ["", "instance.oc1.iad.", "xocid1.instance.oc1.iad.", "ocid1.", "ocid1.x.oc1 "])
def test_drawn_letters_that_name_no_resource_are_hidden(before: str) -> None:
    assert hide(f"at {before}{DRAWN}") == f"at {before}***"
    assert hide(f"at ocid1.instance.oc1.iad.{DRAWN[:20].title()}Ab3Xy9Zk2") == "at ocid1.instance.oc1.iad.***"


@pytest.mark.parametrize("text", [*HARMLESS, "secretRef: name: regcred", "secretKeyRef: name: wandb"])
def test_what_only_looks_so_stays(text: str) -> None:
    assert hide(text) == text


@pytest.mark.skipif(not ENGINE.exists(), reason="the engine is not built")
def test_the_engine_hides_them_in_the_values_of_variables(tmp_path: Path) -> None:
    values = [(shape.format(secret), secret) for shape in SHAPES for secret in _secrets(shape)]
    values += [(text, "") for text in HARMLESS]
    record = tmp_path / "record.jsonl"
    done = subprocess.run(
        [ENGINE, "all_reduce", "-b", "8", "-e", "8", "-t", "1", "-n", "1", "-w", "0", "--record", str(record)],
        env={**os.environ, **{f"NCCL_X{number}": text for number, (text, _) in enumerate(values)}},
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kept = json.loads(record.read_text().splitlines()[0])["environment"]
    shown = [kept[f"NCCL_X{number}"] for number in range(len(values))]
    assert [text for text, (_, secret) in zip(shown, values, strict=True) if secret and secret in text] == []
    assert [text for text, (_, secret) in zip(shown, values, strict=True) if not secret] == list(HARMLESS)


@pytest.mark.parametrize(
    "text",
    [" -genv A_TOKEN ", "password: |\n", 'name: "a_token" value', "%22a_token%22%3A", " --a-password", "://h/t/1"],
)
def test_shapes_without_an_end_cost_little(text: str) -> None:
    hide(text * 10_000)


def _secrets(shape: str) -> tuple[str, ...]:
    if "1//0" in shape or "/t/" in shape:
        return ("vly7uv9y6dzy5s7azykrv44sxmrlptb5ace2uljv",)
    return SECRETS
