"""The record of a run: what the engine writes, importers make, and everything else reads.

A record file is JSON Lines (schema/record.schema.json): a `run` line, a `case` line per measured case and placement,
an `end` line; several records may follow each other in one file. In Python a record is a frozen
`Record(run, cases, end, notes)` whose attributes are named as the keys of the schema, units included (`case.time_us`,
`case.busbw_GBps`).

Reading and writing::

    records = read_records("runs.jsonl")        # list[Record]; UserError says file:line and what is wrong
    record = read_record("one.jsonl")           # exactly one
    save_records(records, "copy.jsonl")         # appears whole or not at all
    write_record(record, stream)                # append to an open text stream
    to_json(case)                               # one line

`Record.end` is None for a run that was cut off. `Record.notes` say what the reader left out (a cut-off last line),
`Run.notes` what an importer remarked, `Case.conversion` how a figure was converted from its tool's definition.
`new_run_id(name)` makes an identifier; `content_run_id(name, content)` one that depends on the content only.

What size, algbw and busbw mean lives in `busbw.records.bandwidth`.
"""

from busbw.records.identity import content_run_id, new_run_id
from busbw.records.model import (
    SCHEMA,
    Average,
    Case,
    CaseOutcome,
    Collective,
    ConfSetting,
    Device,
    End,
    EndOutcome,
    Interval,
    Lack,
    Library,
    Placement,
    Rank,
    Record,
    Run,
    Source,
    Tool,
)
from busbw.records.reader import parse_records, read_record, read_records
from busbw.records.writer import encode, record_lines, save_records, to_json, write_record

__all__ = [
    "SCHEMA",
    "Average",
    "Case",
    "CaseOutcome",
    "Collective",
    "ConfSetting",
    "Device",
    "End",
    "EndOutcome",
    "Interval",
    "Lack",
    "Library",
    "Placement",
    "Rank",
    "Record",
    "Run",
    "Source",
    "Tool",
    "content_run_id",
    "encode",
    "new_run_id",
    "parse_records",
    "read_record",
    "read_records",
    "record_lines",
    "save_records",
    "to_json",
    "write_record",
]
