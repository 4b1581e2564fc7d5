"""The driver removed a program's channels: after an error, or because the program was killed."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="gpu-cleanup",
    stage=Stage.EFFECT,
    title="the driver removed a program's channels (Xid {xid}): it was killed, or another error came before",
    patterns=(
        r"Xid.{0,60}?\): (?P<xid>45)\b",
        r"\bXid(?: error| errors| code)?[ :#=]{1,3}(?P<xid>45)\b",
    ),
    confirm="`dmesg | grep -i xid`: an earlier line with another number; the log of the program with that pid",
    cure="look for the Xid or the error before it; alone it only says that the program was ended",
    source="NVIDIA's catalogue of Xid errors (docs.nvidia.com/deploy/xid-errors)",
)
