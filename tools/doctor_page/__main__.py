"""Writes docs/reference/signatures.md from the doctor's signatures: python3 tools/doctor_page [--check]."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "signatures.md"
sys.path.insert(0, str(ROOT / "python"))


def main() -> int:
    """Write the page, or say whether it is up to date."""
    from busbw.doctor.signature_page import page

    if "--check" in sys.argv[1:]:
        return int(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
