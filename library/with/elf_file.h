// What an auditor needs to know of files, by the C library alone.
#pragma once

namespace busbw::with {

// The part of a path after its last slash.
const char* last_part(const char* path);

// libnccl.so, libnccl.so.2, libnccl.so.2.28.9, and libnccl-1a2b3c4d.so.2 as wheels carry it, and AMD's librccl alike;
// not their plugins.
bool is_name_of_nccl(const char* file);

// Whether the loader of this process would take the file: an ELF file of this class and processor that can be read.
bool fits_this_process(const char* path);

bool is_same_file(const char* a, const char* b);

}  // namespace busbw::with
