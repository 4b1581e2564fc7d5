"""The command line: one list of verbs, one module per verb."""

import sys
from importlib import import_module

# Ctrl-C while modules are imported is the end, without a traceback; main() takes it over. `_signal` is there at once,
# `signal` is a module of its own. Who imports this within another program keeps that program's handler.
if sys.argv[0].rpartition("/")[2] in {"busbw", "-m"} or sys.argv[0].endswith("/busbw/__main__.py"):
    _early = import_module("_signal")
    if _early.getsignal(_early.SIGINT) is _early.default_int_handler:
        _early.signal(_early.SIGINT, _early.SIG_DFL)
