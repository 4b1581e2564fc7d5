"""What a plugin of NCCL says in a log that it sets, where the user did not: variables, and the tuner that chooses.

The wordings are those of aws-ofi-nccl (src/platform-aws, src/nccl_ofi_topo, include/nccl_ofi_util.h), and of NCCL's own
loader and example of tuners. A setting that a plugin found in the environment is none of its own.
"""

from __future__ import annotations

import re

WORDS = ("Setting ", "Adding ", "topology file ", "Disabling NVLS ", "uner")
"""One of them is in every such line."""
TUNER, TABLE = "tuner", "tuner's table"
"""As names: no variables, since a plugin needs none to choose."""

_WHO = r"\bNCCL INFO (?P<who>(?:NET|TUNER|COLL|ENV)/[\w.-]{1,40})[ :]{1,3}"
_ON = r"(?:Running on .{1,100} platform, )?"
_NAME = r"(?P<name>[A-Z][A-Z0-9]{1,20}_[A-Z0-9_]{2,80})"
_SETS = re.compile(
    _WHO + rf'(?:{_ON}Setting {_NAME} (?:environment variable )?to "?(?P<value>[^\s"]{{1,400}})'
    r"|Adding (?P<added>[A-Z][A-Z0-9_]{2,80})=(?P<as>.{0,400}?) to environment\s*$"
    r"|Running on .{1,100} platform, topology file (?P<topology>\S.{0,400}?)\s*$"
    r"|(?P<nvls>Disabling NVLS support due to NCCL version))"
)
_NOT_SET = re.compile(r"OFI_NCCL_|FI_OPT_")
"""aws-ofi-nccl says in the same words what it read of its own variables, and which options of libfabric it sets."""
_TUNER = re.compile(
    r"\bNCCL INFO (?:(?P<who>TUNER/\w{1,40}): (?:"
    r"Using (?:tuner plugin )?(?!internal)(?P<tuner>\w[\w.-]{0,60}(?: \(v\d+\))?)\s*$"
    r"|Loaded (?P<table>\d{1,9} tuning configurations from \S.{0,300}?)\s*$)"
    r"|NET/OFI (?P<kind>Region|Model) base Tuner is chosen for platform)"
)  # fmt: skip


def setting_of_plugin(line: str) -> tuple[str, str, str] | None:
    """Name, value and plugin of what this line says that a plugin sets."""
    if found := _SETS.search(line):
        if found["nvls"]:
            return "NCCL_NVLS_ENABLE", "0", found["who"]
        if found["topology"]:
            return "NCCL_TOPO_FILE", found["topology"], found["who"]
        name, value = (found["name"], found["value"]) if found["name"] else (found["added"], found["as"])
        return None if _NOT_SET.match(name) else (name, _in_bytes(value), found["who"])
    if found := _TUNER.search(line):
        if found["kind"]:
            return TABLE, found["kind"], "NET/OFI"
        return (TUNER, found["tuner"], found["who"]) if found["tuner"] else (TABLE, found["table"], found["who"])
    return None


def _in_bytes(value: str) -> str:
    """A size as NCCL has it in the variable, not as a plugin shows it."""
    number = value.removesuffix("KiB")
    return str(int(number) * 1024) if number != value and number.isdecimal() and len(number) < 12 else value
