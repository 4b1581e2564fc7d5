"""GDRCopy, with which the processor writes GPU memory, does not work."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="gdrcopy",
    stage=Stage.SETTING,
    title="GDRCopy does not work: its kernel module gdrdrv is missing, of another version, or cannot pin memory",
    patterns=(
        r"GDRCOPY failure|Failed to initialize GDRCopy",
        r"libgdrapi \d\S{0,10} gdrdrv \d",
        r"\bgdrcopy open failed",
        r"\bgdr_(?:open|pin_buffer|map|unmap|get_info|copy_|close|unpin)\w*.{0,100}(?:fail|error|not available)",
        # Alone it is what `ls` answers of a module that is loaded.
        r"/dev/gdrdrv\b.{0,60}(?:No such|not found|denied|missing|errno|fail)"
        r"|(?:cannot|can't|could not|unable|fail\w*|error)\b.{0,60}/dev/gdrdrv",
        r"GDRCOPY lib wrapper not initialized",
        r"libgdrapi\S*: cannot open",
        r"gdrwrap\.\w{1,2}:\d+ NCCL WARN (?:Failed to open|.{0,10}lsym failed)",
    ),
    explains=("network-not-found", "efa-error"),
    confirm="lsmod | grep gdrdrv; gdrcopy_sanity",
    cure="install and load gdrdrv of the library's release (modprobe gdrdrv), or leave it out: NCCL_GDRCOPY_ENABLE=0",
    cost="small messages are slower without it",
    severity=Severity.WARNING,
    soft=True,
    source="NCCL src/misc/gdrwrap.cc; gdrcopy",
)
