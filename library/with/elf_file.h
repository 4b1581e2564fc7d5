// What an auditor needs to know of files and of loaded objects, by the C library alone.
#pragma once

#include <link.h>

namespace busbw::with {

// The part of a path after its last slash.
const char* last_part(const char* path);

// libnccl.so, libnccl.so.2, libnccl.so.2.28.9, and libnccl-1a2b3c4d.so.2 as wheels carry it; not NCCL's plugins.
bool is_name_of_nccl(const char* file);

// Whether the loader of this process would take the file: an ELF file of this class and processor that can be read.
bool fits_this_process(const char* path);

bool is_same_file(const char* a, const char* b);

// Makes names of `front` that NCCL has (nccl*, pnccl*) and `real` has not unknown to the loader, so that a program
// which asks for them gets the answer that it gets without us. Gives how many those are, -1 where the names could not
// be changed.
int hide_what_is_missing(const link_map* front, const link_map* real);

}  // namespace busbw::with
