"""A certificate is refused."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="certificate",
    stage=Stage.SYSTEM,
    title="a TLS certificate is refused: expired, not yet valid (the host's clock), or of an unknown authority",
    patterns=(
        r"CERTIFICATE_VERIFY_FAILED|certificate verify failed",
        r"\bcertificate.{0,40}\bx509\b|x509: (?:certificate|cannot|failed)",
        r"certificate (?:has expired|is not yet valid|signed by unknown authority)",
        r"unable to get local issuer certificate",
    ),
    confirm="timedatectl on that host; openssl s_client -connect HOST:PORT",
    cure=(
        "synchronise the clocks (chrony), renew the certificate, or give the container the authority's certificate "
        "(SSL_CERT_FILE, REQUESTS_CA_BUNDLE)"
    ),
    cost="the rank does not start, and the others wait",
    source="OpenSSL and Go's crypto/x509",
    explains=("python-exception", "container-start", "kubernetes-event"),
)
