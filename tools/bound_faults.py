"""Faults for tools/plant_faults: each takes one bound of work on foreign files away, and the test that sees it."""

from __future__ import annotations

_ONE = "python/tests/trust/test_one_bound.py"
_COST = "python/tests/trust/test_foreign_cost.py"

BOUNDS: tuple[tuple[str, str, str, str, str], ...] = (
    (
        "lines of a table",
        "importers/reading.py",
        "            if EFFORT.left <= 0:\n",
        "            if False:\n",
        f"{_ONE} -k 'imported_in_part and csv'",
    ),
    (
        "rows of a document",
        "importers/flat_json.py",
        "            if EFFORT.is_spent and runs is not None and not runs.is_empty:\n",
        "            if False:\n",
        f"{_ONE} -k 'imported_in_part and json'",
    ),
    (
        "a part says so in the record",
        "importers/reading.py",
        "            draft.notes.append(self._part)\n",
        "            pass\n",
        f"{_ONE} -k 'imported_in_part and csv'",
    ),
    (
        "a part is no success",
        "cli/import_.py",
        "int(report.sweeps == 0 or report.is_part)",
        "int(report.sweeps == 0)",
        f"{_ONE} -k 'imported_in_part and csv'",
    ),
    (
        "rows without a collective",
        "importers/flat_json.py",
        "runs.nameless >= MAX_UNREAD and runs.is_empty",
        "False",
        f"{_ONE} -k without_a_collective",
    ),
    (
        "files of a folder",
        "importers/file.py",
        "        if EFFORT.is_spent:\n",
        "        if False:\n",
        f"{_ONE} -k one_folder",
    ),
    (
        "files of an import",
        "cli/import_.py",
        'if EFFORT.is_spent and name != "-":',
        "if False:",
        f"{_ONE} -k files_of_one_call",
    ),
    (
        "a line without an end",
        "importers/lines.py",
        "            if EFFORT.left <= -OVERDRAFT:\n",
        "            if False:\n",
        f"{_ONE} -k without_an_end",
    ),
    (
        "a document is unpacked",
        "importers/lines.py",
        "        if EFFORT.is_spent:\n",
        "        if False:\n",
        f"{_ONE} -k before_it_is_unpacked",
    ),
    (
        "bytes of a log",
        "doctor/lines/work_limit.py",
        "        EFFORT.left -= size * self._per_byte\n",
        "        EFFORT.left -= 0\n",
        f"{_ONE} -k long_lines_are_counted",
    ),
    (
        "the end of a log is reached",
        "doctor/lines/sieve.py",
        "        if limit.is_spent:\n            break\n",
        "        if False:\n            break\n",
        f"{_ONE} -k unpacks_to",
    ),
    (
        "logs share",
        "doctor/reading/read_logs.py",
        "            with EFFORT.part(sizes[at] / sum(sizes[at:])):\n",
        "            with EFFORT.part(1.0):\n",
        f"{_ONE} -k each_end",
    ),
    (
        "lines with words of faults",
        "doctor/lines/work_limit.py",
        "if self._left > -FOR_WORDS and EFFORT.left > self._kept and _tells(raw):",
        "if _tells(raw):",
        f"{_ONE} -k looked_through",
    ),
    (
        "further files of the doctor",
        "doctor/reading/inputs.py",
        "        if full * FOR_READING > EFFORT.left:\n",
        "        if False:\n",
        f"{_ONE} -k further_files",
    ),
    (
        "tables leave the rest for logs",
        "doctor/reading/inputs.py",
        "    with EFFORT.part(FOR_TABLES):\n",
        "    with EFFORT.part(1.0):\n",
        f"{_ONE} -k not_searched_for",
    ),
    (
        "unread files are not healthy",
        "doctor/verdict.py",
        "    in_part = any(map(_IN_PART.search, snapshot.notes))\n",
        "    in_part = False\n",
        "python/tests/doctor/test_read_in_part.py",
    ),
    (
        "sweeps that are examined",
        "importers/__init__.py",
        "        if EFFORT.is_spent and records and (len(sweep) <= WORTH or EFFORT.left < -OVERDRAFT):\n",
        "        if False:\n",
        f"{_ONE} -k left_out",
    ),
    (
        "runs that one command enters",
        "runs/index.py",
        "        if not self._enters_all:\n",
        "        if False:\n",
        "python/tests/trust/test_runs.py -k the_newest_first",
    ),
    (
        "many samples are drawn",
        "analysis/statistics.py",
        "    if count > DRAWN_UP_TO:\n",
        "    if False:\n",
        "python/tests/analysis/test_many_samples.py",
    ),
    (
        "ranks are counted before they are listed",
        "doctor/findings/ranks/init_incomplete.py",
        "if tells and not ended else []\n        hosts",
        "if nranks else []\n        hosts",
        f"{_COST} -k cost_a_list",
    ),
    (
        "heads are looked for up to a sum",
        "importers/work_limit.py",
        "        return self._left <= -FOR_HEADS and not EFFORT.is_lifted\n",
        "        return False\n",
        f"{_COST} -k heads_everywhere",
    ),
    (
        "lines in vain are offered up to a sum",
        "importers/work_limit.py",
        "        return self._left <= 0 and not EFFORT.is_lifted\n",
        "        return False\n",
        f"{_COST} -k far_behind",
    ),
)
"""(name, file in python/busbw, what stands there once, what is planted, the test)."""
