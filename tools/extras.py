"""Prints the requirements of the named extras of pyproject.toml, one a line, so that they are written down once.

`plain` names what busbw needs without any extra.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10: pip carries the same parser
    from pip._vendor import tomli as tomllib


def main(names: list[str]) -> None:
    """Print them."""
    text = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text()
    project: dict[str, Any] = tomllib.loads(text)["project"]
    extras = {"plain": project["dependencies"], **project["optional-dependencies"]}
    for name in names:
        print(*extras[name], sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
