#!/bin/sh
# Builds the programs with a plain C++ compiler, runs them with NCCL alone and with busbw's GPU library in front, and
# says which cases only NCCL alone passes. Needs no network:
#
#     library/tests/gpu/programs/run.sh LIBBUSBW_GPU_SO LIBNCCL_SO [OPTION ...]
#
# PROGRAM says which: right (streams, groups, captures, graphs; the default), room (many communicators, aborts,
# non-blocking ones), capture (what is done to captures and graphs) or life (threads, ends of ranks, operators).
# Options go to the program (--help). BASELINE=0 leaves out NCCL alone. The exit code is 0 if busbw passes all that
# NCCL passes.
set -u
if [ $# -lt 2 ]; then
  sed -n '2,11s/^# \{0,1\}//p' "$0"
  exit 2
fi
busbw=$(realpath "$1")
nccl=$(realpath "$2")
shift 2
here=$(dirname "$(realpath "$0")")
root=$(realpath "$here/../../../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CXX:-g++}" -std=c++20 -O2 -I"$root" -I"$root/include" "$here/${PROGRAM:-right}_gpu.cc" -o "$work/right" -ldl -pthread || exit 1
export PROGRAM_NCCL="$nccl"
touch "$work/alone"
if [ "${BASELINE:-1}" != 0 ]; then
  echo "--- NCCL alone"
  "$work/right" "$@" | tee "$work/alone"
fi
echo "--- busbw in front"
LD_PRELOAD="$busbw" BUSBW_REAL_NCCL="$nccl" "$work/right" "$@" | tee "$work/busbw"
[ "${BASELINE:-1}" != 0 ] || { grep -q ' 0 failed' "$work/busbw"; exit; }
# FAIL lines whose case has a pass line with NCCL alone.
lost=$(sed -n 's/^FAIL \([^:]*\).*/\1/p' "$work/busbw" | while read -r name; do
  grep -qx "pass $name" "$work/alone" && echo "$name"
done)
if [ -n "$lost" ]; then
  echo "--- only NCCL alone passes these:"
  echo "$lost"
  exit 1
fi
grep -q 'passed' "$work/busbw" && echo "--- busbw passes all that NCCL alone passes"
