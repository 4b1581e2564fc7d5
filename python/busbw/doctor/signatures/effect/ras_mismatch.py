"""NCCL's RAS report says that ranks of a communicator stand at different places."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ras-mismatch",
    stage=Stage.EFFECT,
    title="NCCL's RAS report says that ranks stand at different places: {what}",
    patterns=(
        r"(?P<what>ranks have different \w+ operation counts)",
        r"(?P<what>Communicator ranks have different status)",
        r"(?P<what>Rank \d+ has launched up to operation \d+)",
        r"(?P<what>Rank \d+ has not launched any operations)",
        r"(?P<what>\d+ ranks have (?:not launched any operations|launched up to operation \d+))",
        r"(?P<what>Missing communicator data from \d+ (?:ranks?|job process\w*))",
        r"(?P<what>(?:Asynchronous|Initialization) errors? on \d+ ranks?)",
    ),
    confirm="run ncclras again after a minute: do the numbers of the ranks that lag still stand",
    cure=(
        "look at the ranks that RAS names: those behind crashed, run out of step or hang; py-spy dump --pid PID there"
    ),
    cost="all ranks wait for the ones that lag",
    versions="NCCL 2.24 and later",
    source="NCCL src/ras/client_support.cc",
)
