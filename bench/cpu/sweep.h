/* The measuring loop that every program of this comparison shares: sizes, rotation, iterations, and one line per size.
 * Plain C, so that the MPI program and the busbw program compile the very same text. */
#ifndef BUSBW_BENCH_CPU_SWEEP_H
#define BUSBW_BENCH_CPU_SWEEP_H

#include <stddef.h>
#include <stdio.h>
#include <time.h>

static inline double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Enough calls for some 10 ms where a call is short; few where one takes long. */
static inline int iterations_for(size_t bytes) {
  if (bytes <= 4096) return 10000;
  if (bytes <= (64u << 10)) return 2000;
  if (bytes <= (1u << 20)) return 200;
  if (bytes <= (16u << 20)) return 20;
  return 5;
}

/* As nccl-tests does: call i works `size` bytes further on in the largest buffer, so that caches hold what they would.
 */
static inline size_t shift_of(int iteration, size_t bytes, size_t max_bytes) {
  size_t steps = max_bytes / bytes;
  return bytes * ((size_t)iteration % steps);
}

typedef struct {
  void (*barrier)(void* context);
  void (*all_reduce)(void* context, const void* send, void* recv, size_t floats);
  /* Mean over ranks. */
  double (*mean)(void* context, double value);
  void* context;
  int rank;
} sweep_backend;

static inline void sweep(const sweep_backend* backend, char* send, char* recv, size_t min_bytes, size_t max_bytes) {
  for (size_t bytes = min_bytes; bytes <= max_bytes; bytes *= 2) {
    const int iterations = iterations_for(bytes);
    const int warmup = iterations / 10 + 1;
    double elapsed, begin;
    for (int i = 0; i < warmup; ++i) {
      const size_t shift = shift_of(i, bytes, max_bytes);
      backend->all_reduce(backend->context, send + shift, recv + shift, bytes / sizeof(float));
    }
    backend->barrier(backend->context);
    begin = now_us();
    for (int i = 0; i < iterations; ++i) {
      const size_t shift = shift_of(i, bytes, max_bytes);
      backend->all_reduce(backend->context, send + shift, recv + shift, bytes / sizeof(float));
    }
    elapsed = backend->mean(backend->context, (now_us() - begin) / iterations);
    if (backend->rank == 0) {
      printf("%zu %.4f\n", bytes, elapsed);
      fflush(stdout);
    }
  }
}

#endif
