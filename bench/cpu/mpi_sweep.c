/* MPI_Allreduce of floats over all sizes, with the loop of sweep.h. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "sweep.h"

static void barrier(void* context) {
  (void)context;
  MPI_Barrier(MPI_COMM_WORLD);
}

static void all_reduce(void* context, const void* send, void* recv, size_t floats) {
  (void)context;
  MPI_Allreduce(send, recv, (int)floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static double mean(void* context, double value) {
  double sum = 0;
  int ranks = 1;
  (void)context;
  MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return sum / ranks;
}

int main(int argc, char** argv) {
  const size_t min_bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 8;
  const size_t max_bytes = argc > 2 ? strtoull(argv[2], NULL, 10) : 256u << 20;
  char *send, *recv;
  sweep_backend backend = {barrier, all_reduce, mean, NULL, 0};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &backend.rank);
  /* As MPI's users should: memory that the library may prepare for its own transport. */
  MPI_Alloc_mem((MPI_Aint)max_bytes, MPI_INFO_NULL, &send);
  MPI_Alloc_mem((MPI_Aint)max_bytes, MPI_INFO_NULL, &recv);
  memset(send, 0, max_bytes);
  memset(recv, 0, max_bytes);
  sweep(&backend, send, recv, min_bytes, max_bytes);
  MPI_Free_mem(send);
  MPI_Free_mem(recv);
  MPI_Finalize();
  return 0;
}
