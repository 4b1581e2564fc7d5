"""The driver removed a program's channels: after an error, or because the program was killed."""

from busbw.doctor.signature import Signature, Stage
from busbw.doctor.xids import patterns

SIGNATURE = Signature(
    name="gpu-cleanup",
    stage=Stage.EFFECT,
    title="the driver removed a program's channels (Xid {xid}): it was killed, or another error came before",
    patterns=(*patterns("45"),),
    confirm="`dmesg | grep -i xid`: an earlier line with another number; the log of the program with that pid",
    cure="look for the Xid or the error before it; alone it only says that the program was ended",
    source="NVIDIA's catalogue of Xid errors (docs.nvidia.com/deploy/xid-errors)",
)
