"""Lets `python -m busbw` do what the installed `busbw` does."""

import sys

from busbw.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
