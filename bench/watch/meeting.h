// How ranks in C agree on a communicator's unique id: rank 0 writes it into a folder, the others wait for it there.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  char internal[128];
} UniqueId;
int ncclGetUniqueId(UniqueId* id);

// Ends the program with 90 to 93 where that fails, the last after a minute.
static UniqueId shared_id(const char* folder, int rank, const char* name) {
  UniqueId id;
  char path[400], part[410];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  snprintf(part, sizeof part, "%s.part", path);
  memset(&id, 0, sizeof id);
  if (rank == 0) {
    if (ncclGetUniqueId(&id) != 0) exit(90);
    FILE* file = fopen(part, "w");
    if (!file || fwrite(&id, sizeof id, 1, file) != 1) exit(91);
    fclose(file);
    rename(part, path);
    return id;
  }
  for (int turn = 0; turn < 6000; ++turn, usleep(10000)) {
    FILE* file = fopen(path, "r");
    if (!file) continue;
    if (fread(&id, sizeof id, 1, file) != 1) exit(92);
    fclose(file);
    return id;
  }
  exit(93);
}
