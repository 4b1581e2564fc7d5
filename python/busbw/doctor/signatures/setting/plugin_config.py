"""A provider's plugin says that variables are not as it wants them."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="plugin-config",
    stage=Stage.SETTING,
    title="variables are not as the provider's network plugin wants them (its daemon and plugin may differ in release)",
    patterns=(
        r"NET/gIB.{0,40}(?<!\b0 )(?<!\bno )mismatch|config mismatch: NCCL_",
        r"NCCL/NET \(shim\) mismatch",
        r"Guest [Cc]onfig.{0,40}(?<!\b0 )(?<!\bno )mismatch",
        r"(?:guest|nccl) config (?:checker|values).{0,60}(?:(?<!\b0 )(?<!\bno )mismatch|do not match|fail)",
        r"(?:rxdm|tcpgpudmarxd|tcpgpudmarxd-dev).{0,80}(?:version|incompatib).{0,60}(?:mismatch|differ|unsupported)",
    ),
    cost="the plugin falls back, fails, or is slow",
    severity=Severity.WARNING,
    confirm="env | grep NCCL_ in the rank's container; the images of the plugin's installer and of the rxdm container",
    cure=(
        "source the script that the plugin brings (nccl-env-profile.sh), set nothing beside it, and take plugin and "
        "receive daemon (rxdm) of the pair that the provider's release notes name"
    ),
    source="Google's guest configuration checker (NCCL_SHIM) of TCPX, TCPXO and gIB",
)
