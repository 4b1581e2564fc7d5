# Runs test suites and counts them; used by tools/test and .ci/run after common.sh. Sourced, not run.
# shellcheck shell=bash
# RESULTS: folder for the JUnit files, set by the script.

have_gtest() { printf '#include <gtest/gtest.h>\n' | c++ -std=c++20 -E -x c++ - >/dev/null 2>&1; }

# note NAME SENTENCE [COUNT]: tests that were left out and why, said now and counted at the end.
note_skipped() {
  say "skipped: $2"
  printf '%s\n' "${3:-1}" >"$RESULTS/$1.skipped"
}

# run_native FOLDER NAME [-DNAME=VALUE...]: build one configuration with its tests and run them.
run_native() {
  local folder=$1 name=$2 gpu
  shift 2
  say "busbw: building $name tests in ${folder#"$ROOT"/}"
  if ! (configure "$folder" -DBUSBW_TESTS=ON "$@" && compile "$folder"); then
    broken "$name" "the build in ${folder#"$ROOT"/} failed"
    return
  fi
  if ! have_gtest; then
    note_skipped "$name" "$name C++ tests: GoogleTest not found, install libgtest-dev"
    return
  fi
  gpu=$(cd "$folder" && "$CTEST" -N -L gpu | sed -n 's/^Total Tests: //p')
  (cd "$folder" && "$CTEST" -L 'unit|ranks' -LE gpu --output-junit "$RESULTS/$name.xml" --output-on-failure \
    --no-tests=error --parallel 1 --quiet) || true
  grep -qs '<testcase' "$RESULTS/$name.xml" || broken "$name" "ctest ran no test in ${folder#"$ROOT"/}"
  failures "$RESULTS/$name.xml"
  if [ "${gpu:-0}" -gt 0 ]; then note_skipped "$name-gpu" "$gpu $name tests: no GPU" "$gpu"; fi
}

run_python() {
  say "busbw: running the Python tests"
  (cd "$ROOT" && "$VENV/bin/python" -m pytest -q --junitxml="$RESULTS/python.xml") ||
    grep -qs '<testcase' "$RESULTS/python.xml" || broken python "pytest ran no test"
}

# broken NAME SENTENCE: a suite that could not run counts as one failure.
broken() {
  say "failed: $1: $2"
  printf '<testsuite><testcase name="%s"><failure/></testcase></testsuite>\n' "$1" >"$RESULTS/$1.xml"
}

failures() { "$VENV/bin/python" "$ROOT/tools/tally.py" --failures "$@" >&2; }

# The closing line, last on stdout; the exit code says whether anything failed.
finish() { "$VENV/bin/python" "$ROOT/tools/tally.py" "$RESULTS"; }
