"""A program refuses its command line."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="bad-arguments",
    stage=Stage.LAUNCH,
    title="the program refuses its command line: {what}",
    patterns=(
        r"error: (?P<what>unrecognized arguments?: .{2,80}|the following arguments are required: .{2,80}"
        r"|argument \S{1,60}: .{3,80}|ambiguous option: .{2,60})",
        r"Error: (?P<what>No such option:? .{2,60}|Missing (?:argument|option) .{2,60})",
        # torchrun finds the gap in its own words only when it meets the others.
        r"(?P<what>\b(?:rank|endpoint|Port) is absent in (?:RendezvousParameters|endpoint)[^\n]{0,80})",
        r"(?P<what>invalid size specified for '\w{2,20}')",  # nccl-tests
        r"(?P<what>invalid option -- '\w'|unrecognized option '.{2,40}')",
    ),
    unless=("--local-rank", "--local_rank"),
    confirm="the same command on one host, with --help",
    cure="correct the command: options differ between releases of launchers and programs",
    source="Python's argparse and click; getopt",
    explains=("killed-by-launcher", "process-crashed"),
)
