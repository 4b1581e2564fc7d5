"""Passwords of letters alone are hidden where an address, an option or a header says what they are; words are not."""

from __future__ import annotations

import pytest

from busbw.base.secrets import hide

WORD = "walnutsea"
SECRETS = (
    "git clone bob:{}@host.example/repo.git", "rsync rsync://bob:{}@h/x", "bob:{}@10.1.2.3:5432/db",
    "curl bob:{}@host/x",
    "proxy bob:{}@proxy.corp:3128", "http_proxy=bob:{}@proxy:3128", "amqp bob:{}@rabbit:5672",
    "curl -u bob:{} https://x/y", "sshpass -p {} ssh n1", "mysql -u root -p{} db", "mongo -p {} -u bob",
    "login --password {}",
    "--password={}", "PASSWORD={}", "password: {}", "Password: {}", "machine api.wandb.ai login user password {}",
    "machine api.wandb.ai\n  login user\n  password {}\n", "Authorization: Basic {}", "Authorization: Bearer {}",
    "curl -H 'Authorization: Bearer {}' u", "Proxy-Authorization: Basic {}", "net use z: \\\\h\\s /user:bob {}",
    "bearer {}",
)  # fmt: skip
WORDS = (
    "token count: 5", "tokens: 512", "enter password for user", "password required", "login node password expired",
    "machine learning login page password field", "Basic authentication failed", "Basic collective benchmarks",
    "Bearer authentication failed", "train.py -p 8080", "srun -p gpu job.sh", "docker run -p 8080:80 image",
    "n1:123:456 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P", "[1,0]<stdout>:hello",
    "git@github.com:org/repo.git",
    "image repo/app:latest@sha256:abcdef0123456789", "hdf5@1.14 mpi:openmpi@4", "2: eth0@if12: mtu 9000",
    "Reported-by:alice@example.org", "cuda:device@node:0", "command:function@file.py:123", "shell:command@line:123",
    "epoch:step@walltime", "host:port@rail", "PASS: test_one", "tests passed: 5",
)  # fmt: skip


@pytest.mark.parametrize("form", SECRETS)
def test_a_password_of_letters_alone_is_hidden(form: str) -> None:
    shown = hide(form.format(WORD))
    assert WORD not in shown and shown.split()[0][:3] == form.split(maxsplit=1)[0][:3]


@pytest.mark.parametrize("text", WORDS)
def test_ordinary_words_stay(text: str) -> None:
    assert hide(text) == text
