"""`busbw baseline make RUN ...`: thresholds from runs that are known to be good."""

from __future__ import annotations

import sys

from busbw.base.files import write_whole
from busbw.base.words import Args
from busbw.cli.sources import SOURCES_HELP, resolve

EPILOG = f"""\
{SOURCES_HELP}

examples:
  busbw baseline make good --output baseline.toml
  busbw baseline make run1 run2 run3 --sizes 1M,64M,1G --output baseline.toml
  busbw gate tonight --thresholds baseline.toml
"""


def run(args: Args) -> int:
    from busbw.gate.baseline import make, to_toml

    records = [each.record for each in resolve(args.run, args.runs, collective=args.collective)]
    entries = make(records, args.sizes)
    text = to_toml(entries, records)
    if len(records) < 3:
        said = "a baseline of fewer than three runs knows the noise within runs, not between them"
        print(f"busbw: {said}", file=sys.stderr)
    if args.output is None:
        print(text, end="")
        return 0
    write_whole(args.output, text)
    print(f"{len(entries)} thresholds from {len(records)} runs in {args.output}", file=sys.stderr)
    return 0
