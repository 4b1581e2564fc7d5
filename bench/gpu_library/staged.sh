#!/usr/bin/env bash
# What staged copies are worth, in minutes: right results, what the copy engines do, and steps beside them.
#
#   OUT=folder bench/gpu_library/staged.sh [STARTS] [SECONDS-FOR-STEPS] [GPUS]
#
# Needs a build with kernels in build/ (BUSBW_BUILD names another), a Python with PyTorch, and its wheel of NCCL.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
out=${OUT:-bench/out/staged}
build=${BUSBW_BUILD:-build}
starts=${1:-2} seconds=${2:-190} gpus=${3:-$(nvidia-smi -L | grep -c '^GPU ')}
mkdir -p "$out"
BUSBW_REAL_NCCL=${BUSBW_REAL_NCCL:-$(python3 -c 'import nvidia; print(f"{list(nvidia.__path__)[0]}/nccl/lib/libnccl.so.2")')}
case $build in /*) ;; *) build=$PWD/$build ;; esac
export BUSBW_REAL_NCCL NCCL_NVLS_ENABLE=0 BUSBW_GPU_LOG=2

# A process for each GPU; prints what rank 0 says.
ranks() {
  local name=$1 port=$((20000 + RANDOM % 20000)) rank
  shift
  for ((rank = gpus - 1; rank >= 0; rank--)); do
    BUSBW_RANK=$rank BUSBW_WORLD_SIZE=$gpus BUSBW_LOCAL_RANK=$rank BUSBW_LOCAL_SIZE=$gpus BUSBW_ADDRESS=127.0.0.1:$port \
      BUSBW_SECRET=00112233445566778899aabbccddeeff BUSBW_ALGORITHM=staged/copy timeout -k 2 40 \
      "$build/bin/busbw-engine" "$@" --library "$build/lib/libbusbw_gpu.so" >"$out/$name.$rank.txt" 2>&1 &
  done
  wait
  printf '\n== %s: %s\n' "$name" "$*"
  grep -E '^ +[0-9]|rror|Avg|Out of bounds|staged' "$out/$name.0.txt" | head -12
}

ranks all_reduce all_reduce -b 64K -e 256M -f 4 -n 10 -c 1 -d bfloat16
ranks all_reduce_graph all_reduce -b 1M -e 64M -f 4 -n 10 -c 1 -G 3
ranks reduce_scatter reduce_scatter -b 1M -e 256M -f 16 -n 10 -c 1
ranks all_gather all_gather -b 1M -e 256M -f 16 -n 10 -c 1
ranks all_gather_graph all_gather -b 1M -e 64M -f 8 -n 10 -c 1 -G 3
ranks alltoall alltoall -b 1M -e 256M -f 16 -n 10 -c 1
printf '\n== one thread for all GPUs\n'
BUSBW_ALGORITHM=staged/copy timeout -k 2 30 "$build/bin/busbw-engine" all_reduce -g "$gpus" -b 4M -e 64M -f 4 -n 5 -c 1 \
  --library "$build/lib/libbusbw_gpu.so" 2>&1 | tee "$out/one_thread.txt" | grep -E '^ +[0-9]|rror|Out of' | head -6
unset BUSBW_GPU_LOG
# All-reduce, residual and RMSNorm in one kernel: a process for each GPU.
printf '\n== norm\n'
port=$((20000 + RANDOM % 20000))
for ((rank = gpus - 1; rank >= 0; rank--)); do
  RANK=$rank WORLD_SIZE=$gpus LOCAL_RANK=$rank BUSBW_PREFER=latency MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
    LD_PRELOAD=$build/lib/libbusbw_gpu.so timeout -k 2 90 python3 bench/gpu_library/programs/norm.py >"$out/norm.$rank.txt" 2>&1 &
done
wait
tail -25 "$out/norm.0.txt"
timeout $((seconds + 20)) python3 bench/gpu_library beside --build "$build" --budget "$seconds" --counts "$gpus" --starts "$starts" \
  --side "staged:BUSBW_TABLE=$PWD/bench/gpu_library/programs/staged.table;BUSBW_PREFER=overlap" \
  --beside overlap,ddp,fsdp,tensor_parallel,tensor_parallel+graph,experts --out "$out/steps" 2>&1 | tail -90
