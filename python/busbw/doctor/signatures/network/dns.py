"""A host's name cannot be resolved."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="dns",
    stage=Stage.NETWORK,
    title="a host name cannot be resolved to an address: {host}",
    patterns=(
        r"addresses of \((?P<host>[\w.-]{1,120}), \d{1,6}\) cannot be retrieved",
        # A program's own words before the answer are no host's name: `host not found: Name or service not known`.
        r"\b(?!(?:not|found|failed|error|ERROR|Error|hostname|host|address|getaddrinfo|gaierror|lookup|resolve): )"
        r"(?P<host>[A-Za-z][\w.-]{1,120})(?::\d{1,6})?: (?:Name or service not known|Temporary failure in name)",
        r"[Cc]ould not resolve host(?:name)?:? (?P<host>[\w.-]{1,120}): (?:Name|Temporary)",
        r"\bhost='(?P<host>[\w.-]{1,120})'.{0,300}(?:Name or service not known|Temporary failure in name)",
        r"DNS resolution failed for (?P<host>[\w.-]{1,120})",  # gRPC: TensorFlow, JAX
        r"Name or service not known",
        r"Temporary failure in name resolution",
        r"getaddrinfo.{0,60}fail",
        r"nodename nor servname provided",
        r"No address associated with hostname",
        r"\[Errno -[235]\]",
    ),
    explains=("master-unreachable", "rendezvous-timeout", "mpi-launch", "python-exception", "xla-error"),
    confirm="getent hosts NAME on every node",
    cure=("use addresses (MASTER_ADDR=10.0.0.1), repair DNS or /etc/hosts, wait for the headless service of the pods"),
    source="getaddrinfo's own words",
)
