"""Short secrets that no form betrays, in the shapes in which programs, shells and dumps write a name and its value."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.base.secrets import hide, hide_in_file, hide_values

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
    "cmd: ['python', '--wandb-key', '{}', '--lr']", '"args": [\n  "--api-key",\n  "{}",\n  "--lr"]',
    "x\0--api-key\0{}\0--lr",
    "\x1b[32mAPI_KEY\x1b[0m={}", "PASSWORD\t{}", "requests.get(url, auth=('me', '{}'))",
    "Config {{ password: Some(\"{}\") }}",
    '"password": {{"value": "{}"}}', "password: &pw {}", "- `HF_TOKEN`: {}", "ENV HF_TOKEN {}", "%env HF_TOKEN {}",
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
    "machine h/ubuntu login me password {}", "requirepass {}", "bindpw {}\nbase dc=x", "rootpw --plaintext {}",
    "http -a me:{} https://x/y", "useradd -m -p {} bob", "echo {} | kinit me@CORP", "sudo -S <<< {} systemctl stop x",
    "snmpwalk -v3 -u me -l authPriv -a SHA -A {} -x AES sw1", "snmpwalk -v3 -a SHA-256 -x AES -X {} sw1",
    "snmpwalk -v2c -c {} sw1", "Password for 'https://me@github.com': {}",
    "mc alias set minio https://m:9000 admin {}", "weka user login admin {}",
    "openssl enc -aes-256-cbc -k {} -in a", 'variable "db_password" {{ default = "{}" }}',
    "unzip -P {} logs.zip", "7z x -p{} logs.7z",
    "ssh-keygen -t ed25519 -N '{}' -f k", "poetry config http-basic.corp me {}", "curl -b 'session={}' https://x",
    "curl -b session={} https://x", "curl --cert me.pem:{} https://x", "lftp -u robot,{} ftp.example.org",
    "htpasswd -b users robot {}", "rabbitmqctl add_user robot {}", "kadmin -p admin@X -w {} -q listprincs",
    "tacacs-server host 10.0.0.1 key 7 {}", "snmp-server community {} ro", "enable password 7 {}",
    "net use Z: \\\\srv\\share {} /user:me", "ipa-client-install -p admin -w {} --unattended", "a b : PSK \"{}\"",
    "echo '{}' | realm join -U admin corp", "echo {} | azcopy-login --secret-stdin", "sqlplus -s system/{}@//db:1521/x",
)  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES + SHAPES_OF_VALUES)
def test_a_short_secret_is_hidden_in_this_shape(shape: str) -> None:
    for secret in SECRETS:
        assert secret not in hide(shape.format(secret))
        if shape in SHAPES_OF_VALUES:
            assert secret not in hide_values(shape.format(secret))


@pytest.mark.parametrize(
    "text",
    [
        "Password:\n{}\n", "API key =>\n  {}",
        "{{\n  \"access_token\":\n    \"{}\"\n}}", "Generated password:\n\n    {}\n",
        "n1:1:9 [0] NCCL WARN DB_PASSWORD:\nn1:1:10 [0] NCCL WARN   {}", "secret_key:\n  - {}\nuser: me",
        "0: Jupyter Server token:\n0:     {}", "- name: DB_PASSWORD\n  value: {}",
    ],
)  # fmt: skip
def test_a_value_below_its_name_is_hidden(text: str, tmp_path: Path) -> None:
    for secret in SECRETS:
        whole = text.format(secret)
        assert hide(whole) == text.replace('\\"', '"').format("***")
        (tmp_path / "log").write_text(whole)
        hide_in_file(tmp_path / "log")
        assert (tmp_path / "log").read_text() == hide(whole)


@pytest.mark.parametrize(
    "text",
    [
        "Missing keys:\n  layer1.weight", "auth:\n  type=munge2", "token:\n", "tokens:\n  step10.json",
        "token:\n  two2 words3",
    ],
)  # fmt: skip
def test_what_stands_below_other_names_stays(text: str) -> None:
    assert hide(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://NV4TOWM5O8PNS7XKQ2LR:x9@minio/b", "s3://***:***@minio/b"),
        ("ssh://robot:x9@minio/b", "ssh://robot:***@minio/b"),
        ("n1: eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjE3NjcxMzkyMDB9\nn1: ***.TDXETjdcCozKl-uz_OmXJCxUrwjJ_W-mcL_wzcu",
         "n1: ***\nn1: ***.***"),
        ("ABIAS6RPA1EG32N6L2U8 failed", "*** failed"), ("system/x9z@//db:1521/svc", "system/***@//db:1521/svc"),
        ("secret provided: GZ68Q~KZYDnxtX-HRn-tGHNC_cUyiUXRokxHUSud", "secret provided: ***"),
        ("pscale_pw_efGCYGdDxYOSEKqrFETTnfvRBKGcJUluLdL8qYXxo-Z", "pscale_pw_***"),
        ("NRAK-HU9WCB3OMRR4GH8D50SE2EXFUHM", "***"),
        ("_gitlab_session=d9e1985a0560ffdf8ffde34e6c7a0442", "_gitlab_session=***"), ("senha: vento", "senha: ***"),
        ("UID%3Dsa%3BPWD%3Dvento%3B", "UID%3Dsa%3BPWD%3D***%3B"),
        ("Paste an API key here: 11180f2102a62f62d878ef2339d719b740a3e61a", "Paste an API key here: ***"),
    ],
)  # fmt: skip
def test_a_form_of_a_value_is_hidden_by_itself(text: str, shown: str) -> None:
    assert hide_values(text) == shown


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
        "TOKENIZERS_PARALLELISM=false", "max_new_tokens=512", "--max-tokens 4096 --tokenizer-name gpt2", "bypass=1",
        "key_value_cache_dtype=fp8", "primary_key: id", "secretName: hf-token",
        "signature: (Tensor input, int dim) -> x",
        "kernel_name: sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_k_off",
        "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8", "PASS: test_all_reduce",
        "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SE_1LDSB0_APM1_ABV0_ACED0_AF0EM8_AF1EM1_AMAS3_ASE_ASGT_ASAE01",
        "secretKeyRef: {name: hf, key: token}", "cookie: unset", "authorization: required", "M_Key 0x0000000000000000",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGx5vZ2kQw8Rt3Lm9Bn4Xc7 me@host", "pad_token_id=50256 eos_token='</s>'",
        "AuthType=auth/munge", "AuthAltParameters=jwt_key=/var/spool/slurm/jwt_hs256.key",
        "XAUTHORITY=/home/user/.Xauthority",
        "GOOGLE_APPLICATION_CREDENTIALS=/etc/gcp/key.json", "JobCredentialPrivateKey=(null)", "password: not set",
        "sas_address: 0x500605b00c1a2b30", "private_ip: 10.0.3.17", "stop_token_ids=[128001, 128009]",
        "secrets: inherit",
        "tokens_per_expert: tensor([512, 498])", "key_states.shape=torch.Size([1, 8, 4096, 128])",
        "credsStore: desktop", "credentialProvider: EKS",
        "RDMA: rkey=12345678 addr=0x7f0000000000", "unzip -p logs.zip a.txt", '"pad_token": "[PAD]"', "auth: sys",
        "--key-dtype fp16 --value-dtype fp16", "net use Z: \\\\srv\\share /user:me", "sqlplus /nolog",
        "forward_pass=0.123 backward_pass=12ms", "mysql -P 3306 -h db", "author = A. Person", "passwd: files sss",
    ],
)  # fmt: skip
def test_what_only_looks_so_stays(text: str) -> None:
    assert hide(text) == text


@pytest.mark.parametrize(
    "text", ["<token ", "docker -p ", "echo a|", " -u a%", " -u a -p ", "thin:", "\ttrue\t1", "ENV['"]
)
def test_shapes_without_an_end_cost_little(text: str) -> None:
    hide(text * 10_000)


@pytest.mark.parametrize(
    "form",
    ["wandb login --host=https://w.example.org {}", "wandb: key for api.wandb.ai to your netrc file: {}",
     "pip install --extra-index-url https://{}:@packages.example.org/simple x", '"username":"me","key":"{}"',
     "wandb.login(key='{}')", "wandb:\n  key: {}", "-Dsonar.login={}"],
)  # fmt: skip
def test_a_hexadecimal_key_is_hidden_where_its_name_says_so(form: str) -> None:
    key = "44de10b1b61ef10698458c2963b8aaa0cb97aaf2"
    assert key[:12] not in hide(form.format(key))


@pytest.mark.parametrize(
    "text", ["root:$6$Xq3v9LmT$rUuoJDKBZW1sOrfH2kQw8Rt3Lm9Bn4Xc7", "me:$apr1$dH6p1r7f$D3FC9KyqhDbAMtTXnVv4G/",
             "pbkdf2.sha512.10000.9F8BB1379821843FC51F730E5117A59E", "0992665861:AARcIh5PEDDFfgGR0GP7NkBSv9UyEx5Gs4"]
)  # fmt: skip
def test_hashes_of_passwords_and_keys_of_bots_are_hidden(text: str) -> None:
    assert hide_values(text).endswith("***") and text[-8:] not in hide_values(text)


@pytest.mark.parametrize("text", ["Token {} has been saved", "https://me:{}@huggingface.co/a/b", "hf auth login -t {}"])
def test_tokens_that_are_all_letters_are_hidden_by_their_form(text: str) -> None:
    for token in ("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", "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"):
        assert "urTonCbb" not in hide_values(text.format(token))
    for harmless in ("hf_transfer_of_many_files_and_folders", "hf_hub_enable"):
        assert hide_values(f"set {harmless} first") == f"set {harmless} first"


def test_a_number_in_base_64_that_begins_as_a_path_does_is_hidden_whole() -> None:
    assert hide_values("/DBrzfNH2ijRMKkgJnEVuRLNah2e6a1+LqcdM+rUuoJDKBZ==") == "***=="


def test_a_private_key_in_a_file_is_hidden_line_by_line(tmp_path: Path) -> None:
    lines = [
        "x",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "abcdefghijklmnop",
        "qrstuvwx",
        "-----END OPENSSH PRIVATE KEY-----",
        "y",
    ]
    path = tmp_path / "output.txt"
    path.write_text("\n".join(lines) + "\n")
    hide_in_file(path)
    kept = path.read_text().splitlines()
    assert len(kept) == len(lines) and kept[0] == "x" and kept[-1] == "y"
    assert kept[2:4] == ["***", "***"]
    assert "abcd" not in hide("node-1: " + "\nnode-1: ".join(lines))
