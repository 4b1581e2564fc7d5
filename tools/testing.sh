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
  run_ctest "$folder" "$name" unit "$JOBS"
  # Ranks mostly wait for each other: two tests at once take little more than one. More would starve a rank that is waited for.
  run_ctest "$folder" "$name-ranks" ranks "$((JOBS > 1 ? 2 : 1))"
  if [ "${gpu:-0}" -gt 0 ]; then note_skipped "$name-gpu" "$gpu $name tests: no GPU" "$gpu"; fi
}

# run_ctest FOLDER NAME LABEL HOW_MANY: the tests of one label, so many at once.
run_ctest() {
  (cd "$1" && "$CTEST" -L "$3" -LE gpu --output-junit "$RESULTS/$2.xml" --output-on-failure --no-tests=error \
    --parallel "$4" --quiet) || true
  grep -qs '<testcase' "$RESULTS/$2.xml" || broken "$2" "ctest ran no $3 test in ${1#"$ROOT"/}"
  failures "$RESULTS/$2.xml"
  if [ "$3" = ranks ] && few_failed "$2"; then
    (cd "$1" && timeout 300 "$CTEST" --rerun-failed --output-junit "$RESULTS/again/$2.xml" --quiet) || true
  fi
}

# few_failed NAME: at most three tests of one run failed. They are tried once more, one by one, and named at the end where they
# passed then: ranks and real daemons wait for each other in them, and a host may stall for seconds.
few_failed() {
  local failed
  failed=$(failures "$RESULTS/$1.xml" 2>&1 | grep -c '^failed: ') || true
  [ "$failed" -ge 1 ] && [ "$failed" -le 3 ] && mkdir -p "$RESULTS/again"
}

# Rooms whose tests start no ranks run on all processors, but for the files that measure time. Tests with ranks wait more
# than they work: two files at once. What kills at random and counts what is left runs one by one.
QUIET_ROOMS=(analysis base doctor expect gate importers machine records report runs cli/arguments)
RANKS_ROOMS=(bench cli engine experiment fleet launch library tools torch_bench watch)
run_python() {
  local room quiet=() ranks=() loud=() timed=()
  # About the sources as a whole: they only read.
  for room in "$ROOT"/python/tests/test_*.py; do
    quiet+=("${room#"$ROOT"/}")
    loud+=("--ignore=${room#"$ROOT"/}")
  done
  for room in "${QUIET_ROOMS[@]}"; do
    quiet+=("python/tests/$room")
    loud+=("--ignore=python/tests/$room")
  done
  for room in "${RANKS_ROOMS[@]}"; do
    ranks+=("python/tests/$room")
    loud+=("--ignore=python/tests/$room")
  done
  mapfile -t timed < <(cd "$ROOT" && grep -rlE 'perf_counter|monotonic\(|process_time' "${quiet[@]}" --include='test_*.py')
  say "busbw: running the Python tests"
  run_pytest python-quiet -n "$JOBS" --dist loadfile "${quiet[@]}" "${timed[@]/#/--ignore=}"
  run_pytest python-timed "${timed[@]}"
  run_pytest python-ranks -n "$((JOBS > 1 ? 2 : 1))" --dist loadfile --ignore=python/tests/cli/arguments "${ranks[@]}"
  run_pytest python "${loud[@]}"
}

# run_pytest NAME WORD...: one run and its results.
run_pytest() {
  local name=$1
  shift
  (cd "$ROOT" && "$VENV/bin/python" -m pytest -q --junitxml="$RESULTS/$name.xml" "$@") && return
  grep -qs '<testcase' "$RESULTS/$name.xml" || broken "$name" "pytest ran no test"
  if few_failed "$name"; then
    (cd "$ROOT" && timeout 300 "$VENV/bin/python" -m pytest -q --last-failed --junitxml="$RESULTS/again/$name.xml" "$@" -n 0) || true
  fi
}

# broken NAME SENTENCE: a suite that could not run counts as one failure.
broken() {
  say "failed: $1: $2"
  printf '<testsuite><testcase name="%s"><failure/></testcase></testsuite>\n' "$1" >"$RESULTS/$1.xml"
}

failures() { "$VENV/bin/python" "$ROOT/tools/tally.py" --failures "$@" >&2; }

# The closing line, last on stdout; the exit code says whether anything failed.
finish() { "$VENV/bin/python" "$ROOT/tools/tally.py" "$RESULTS"; }
