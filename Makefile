# Names for the scripts in tools/, which hold the logic.
#   make demo       build, measure all-reduce on this machine, say what to try next
#   make test       build and run every test this machine can run
#   make build      the engine, the drop-in programs and the libraries into build/
#   make lint       every linter (tools/lint --fix formats in place)
#   make install PREFIX=/opt/busbw
#   make clean      remove what the others made
# PYTHON=... chooses the interpreter, BUSBW_JOBS=... how many compilers run at once.

.PHONY: demo test build lint install clean

demo test build lint:
	@tools/$@

install:
	@tools/install "$(PREFIX)"

clean:
	rm -rf build build-* .venv dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

ifdef PYTHON
export PYTHON
endif
