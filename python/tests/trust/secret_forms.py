"""Sixty forms of secrets as their makers document them, with random bodies: half to tune the rules by, half held out.

A form is a text in which `{alphabet length}` stands for a random body. Sources are public documents: GitHub's list of
supported secret scanning patterns and the token pages of each service. No body is or was anybody's secret.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Iterator

ALPHABETS = {
    "hex": "0123456789abcdef",
    "low": string.ascii_lowercase + string.digits,
    "up": string.ascii_uppercase + string.digits,
    "b32": string.ascii_lowercase + "234567",
    "b62": string.ascii_letters + string.digits,
    "b64": string.ascii_letters + string.digits + "+/",
    "url": string.ascii_letters + string.digits + "-_",
    "dig": string.digits,
}
FORMS = {
    "GitHub personal": "ghp_{b62 36}",
    "GitHub fine-grained": "github_pat_{b62 22}_{b62 59}",
    "GitLab personal": "glpat-{url 20}",
    "GitLab runner": "glrt-{url 20}",
    "GitLab pipeline trigger": "glptt-{hex 40}",
    "Slack bot": "xoxb-{dig 12}-{dig 12}-{b62 24}",
    "Slack app": "xapp-1-A{up 10}-{dig 13}-{hex 64}",
    "Slack webhook": "https://hooks.slack.com/services/T{up 8}/B{up 8}/{b62 24}",
    "AWS key id": "AKIA{up 16}",
    "AWS secret": "aws configure set aws_secret_access_key {b64 40}",
    "AWS session": "FwoGZXIvYXdzE{b64 180}",
    "AWS signed address": "https://b.s3.amazonaws.com/k?X-Amz-Credential=x&X-Amz-Signature={hex 64}&X-Amz-Date=1",
    "AWS signed header": "Authorization: AWS4-HMAC-SHA256 Credential=A/2026/eu/s3/aws4_request, Signature={hex 64}",
    "Azure SAS": "https://a.blob.core.windows.net/c?sv=2022-11-02&sr=c&sp=r&sig={b64 43}%3D",
    "Azure storage": "AccountName=a;AccountKey={b64 86}==;EndpointSuffix=core.windows.net",
    "Azure service bus": "Endpoint=sb://n.servicebus.windows.net/;SharedAccessKeyName=r;SharedAccessKey={b64 43}=",
    "Azure client": "{b62 3}8Q~{url 34}",
    "Azure DevOps": "{b32 52}",
    "Google API": "AIza{url 35}",
    "Google OAuth access": "ya29.{url 120}",
    "Google OAuth client": "GOCSPX-{url 28}",
    "Google signed address": "https://storage.googleapis.com/b/o?X-Goog-Algorithm=x&X-Goog-Signature={hex 256}",
    "Google service account": '"private_key": "-----BEGIN PRIVATE KEY-----\\n{b64 64}\\n-----END PRIVATE KEY-----"',
    "Hugging Face": "hf_{b62 34}",
    "Hugging Face organisation": "api_org_{b62 34}",
    "OpenAI project": "sk-proj-{url 48}",
    "Anthropic": "sk-ant-api03-{url 93}AA",
    "NVIDIA NGC": "nvapi-{url 64}",
    "Weights and Biases": "wandb login {hex 40}",
    "Weights and Biases new": "wandb_v1_{b62 60}",
    "Docker Hub": "dckr_pat_{url 27}",
    "Docker config": '{"auths": {"r.io": {"auth": "{b64 40}"}}}',
    "PyPI": "pypi-AgEIcHlwaS5vcmc{url 80}",
    "npm": "npm_{b62 36}",
    "npmrc": "//npm.example/:_authToken={low 36}",
    "Stripe": "sk_live_{b62 24}",
    "Twilio": "SK{hex 32}",
    "SendGrid": "SG.{url 22}.{url 43}",
    "Vault": "hvs.{url 90}",
    "Terraform": "{b62 14}.atlasv1.{url 64}",
    "DigitalOcean": "dop_v1_{hex 64}",
    "Databricks": "dapi{hex 32}",
    "Grafana": "glsa_{b62 32}_{hex 8}",
    "Atlassian": "ATATT3xFfGF0{url 170}",
    "Telegram": "https://api.telegram.org/bot{dig 10}:AA{url 33}/getMe",
    "Discord webhook": "https://discord.com/api/webhooks/{dig 18}/{url 68}",
    "Kubernetes service account": "eyJhbGciOiJSUzI1NiJ9.{url 80}.{url 86}",
    "kubeadm join": "kubeadm join 10.0.0.1:6443 --token {low 6}.{low 16}",
    "age": "AGE-SECRET-KEY-1{up 58}",
    "OpenSSH": "-----BEGIN OPENSSH PRIVATE KEY-----\n{b64 70}\n{b64 70}\n-----END OPENSSH PRIVATE KEY-----",
    "PuTTY": "PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 1\n{b64 64}",
    "PostgreSQL": "postgresql://app:{url 20}@db.example.org:5432/x",
    "Redis without a user": "redis://:{url 20}@cache:6379/0",
    "Sentry": "https://{hex 32}@o1.ingest.sentry.io/2",
    "curl user": "curl -u robot:{b62 20} https://example.org/",
    "sshpass": "sshpass -p {b62 20} ssh node1",
    "docker login": "docker login -u robot -p {b62 20} r.example.org",
    "netrc": "machine example.org login robot password {b62 20}",
    "Jupyter": "http://node1:8888/lab?token={hex 48}",
    "cookie": "Cookie: sessionid={low 32}; theme=dark",
}  # fmt: skip
"""By name; every second one, from the second on, is held out."""
HELD_OUT = tuple(list(FORMS)[1::2])
TUNED = tuple(list(FORMS)[::2])
_BODY = re.compile(r"\{(\w+) (\d+)\}")


def drawn(name: str, seed: int) -> tuple[str, list[str]]:
    """The form with random bodies, and the bodies of at least 16 characters: none of them may be seen."""
    draw = random.Random(f"{name} {seed}")
    bodies: list[str] = []

    def body(found: re.Match[str]) -> str:
        alphabet, length = ALPHABETS[found[1]], int(found[2])
        made = "".join(draw.choice(alphabet) for _ in range(length))
        if length >= 16 and alphabet != ALPHABETS["dig"]:
            bodies.append(made)
        return made

    return _BODY.sub(body, FORMS[name]), bodies


def pieces(body: str) -> Iterator[str]:
    """Parts of a body that tell somebody who sees them most of it."""
    for at in range(0, max(1, len(body) - 11), 4):
        yield body[at : at + 12]
