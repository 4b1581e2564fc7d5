"""Short secrets that no form betrays, in the shapes in which programs, shells and dumps write a name and its value."""

from __future__ import annotations

import pytest

from busbw.base.secrets import hide, hide_values

SECRETS = ("otter-47Gate", "Kettle_28reed", "winter.63moon")
SHAPES = (
    '{{"log": "{{\\"password\\": \\"{}\\"}}"}}', "{{b'api_key': b'{}'}}", '"HF_TOKEN": ["{}", "b"]', "MY_TOKEN => {}",
    "password := {}", 'token = """{}"""', "password: |\n  {}\nuser: me", "os.environ['HF_TOKEN'] = '{}'",
    "$ENV{{HF_TOKEN}} = '{}';", 'os.environ.setdefault("HF_TOKEN", "{}")', "('HF_TOKEN', '{}')", "| HF_TOKEN | {} |",
    "HF_TOKEN,{}", "HF_TOKEN\t{}", "HF_TOKEN -> {}", "Setting HF_TOKEN to {}", "HF_TOKEN\x1b[0m=\x1b[32m{}\x1b[0m",
    "&quot;HF_TOKEN&quot;: &quot;{}&quot;", "%22password%22%3A%22{}%22", "cmake -DHF_TOKEN:STRING={} .",
    'docker run -e "HF_TOKEN=two words {} more" x', 'x --password "ab\\"c{}" --y', "password: 'it''s {}'",
    "x --password=$'{}' --y", "setx HF_TOKEN {}", "set -gx HF_TOKEN {}", "mpiexec.hydra -genv HF_TOKEN {} -n 2 x",
    "mpiexec -env HF_TOKEN {} -n 2 x", '<add key="ApiKey" value="{}"/>', "DB_PW={} ./run", "wpa_psk={}",
)  # fmt: skip
"""Shapes that `hide` alone knows: a name announces the value."""
SHAPES_OF_VALUES = (
    "https://robot:p@{}@host/x", "http_proxy=robot:{}@proxy:3128", "sqlcmd -S s -U sa -P {} -Q x",
    "racadm -r bmc -u root -p {} getsysinfo", "smbclient //srv/share -U robot%{}", "redis-cli -h cache -a {} ping",
    "ldapsearch -x -D cn=admin -w {} -b dc=x", "ipmitool -I lanplus -H bmc1 -P {} power status",
    "az login --service-principal -u app -p {} --tenant t", "sshpass -p'{}' ssh bmc", "<password>{}</password>",
    "echo {} | sudo -S nvidia-smi -r", "jdbc:oracle:thin:scott/{}@db:1521:x", "The password is {}",
    "machine h login robot password {}", 'Authorization: Digest username="me", response="{}"',
    "example.org\tTRUE\t/\tFALSE\t0\tsessionid\t{}",
)  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES + SHAPES_OF_VALUES)
def test_a_short_secret_is_hidden_in_this_shape(shape: str) -> None:
    for secret in SECRETS:
        assert secret not in hide(shape.format(secret))
        if shape in SHAPES_OF_VALUES:
            assert secret not in hide_values(shape.format(secret))


def test_a_magic_cookie_of_x_is_hidden() -> None:
    assert hide_values("xauth add n1/unix:0 MIT-MAGIC-COOKIE-1 1150bf8e28d3e14be535893b80598e7d").endswith(" ***")


@pytest.mark.parametrize(
    "text",
    [
        "[proxy:0:1@node7] main (proxy/pmip.c:126): unable to connect to server login1 at port 41001",
        "BUSBW_SECRET is not set on this host", "HF_TOKEN, WANDB and others", "set HF_TOKEN to use this model",
        '{"authentication": {"loginEndpoint": "x"}}', '{"secretKeyRef": {"name": "job", "key": "x"}}',
        "srun -u -p gpu -N 2", "ipmitool -p 623 sensor", "ssh -u node1 -p 2222", "echo done | tee log",
        "docker run -u 1000:1000 -p 8080:80 image", "| SLURM_JWT | unset |", "GPU0 | 97 % | 300 W",
    ],
)  # fmt: skip
def test_what_only_looks_so_stays(text: str) -> None:
    assert hide(text) == text


@pytest.mark.parametrize(
    "text", ["<token ", "docker -p ", "echo a|", " -u a%", " -u a -p ", "thin:", "\ttrue\t1", "ENV['"]
)
def test_shapes_without_an_end_cost_little(text: str) -> None:
    hide(text * 10_000)
