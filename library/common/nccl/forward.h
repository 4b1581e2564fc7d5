// Passes functions of the NCCL API on unseen: a jump through a table, so that any signature goes through unchanged and
// a function costs one line in functions.h. For one file of a library, which then says BUSBW_FORWARD(name) for each.
//
// Each has a record {where to jump, name}. The first jump leads to busbw_forward_lazy, which saves the arguments, has
// the function looked up in the real NCCL, and goes on there. A function that this NCCL lacks stays unresolved: calling
// it returns ncclInvalidUsage, with a sentence for ncclGetLastError.
#pragma once

#include <dlfcn.h>

#include "library/common/elf_symbols.h"
#include "library/common/failure.h"
#include "library/common/nccl/last_error.h"
#include "library/common/nccl/real_nccl.h"

namespace {

using namespace busbw;  // NOLINT: the functions below are C

bool next_has(const void*, const char* name) { return dlsym(RTLD_NEXT, name) != nullptr; }

// Preloaded before an NCCL that the program is linked to: what that lacks is absent for the program too, if it asks by
// dlsym. Weak references are bound by now; `busbw with` comes before them.
[[gnu::constructor]] void hide_what_nccl_lacks() {
  Dl_info where{};
  void* ours = nullptr;
  if (!next_has(nullptr, "ncclCommInitRank")) return;
  if (dladdr1(reinterpret_cast<void*>(&next_has), &where, &ours, RTLD_DL_LINKMAP) != 0)
    hide_functions(static_cast<const link_map*>(ours), next_has, nullptr);
}

ncclResult_t missing() { return ncclInvalidUsage; }
ncclResult_t without_nccl() { return ncclSystemError; }

}  // namespace

extern "C" {

struct ForwardRecord {
  void* target;
  const char* name;
};

// Called from the assembly below.
__attribute__((used, visibility("hidden"))) void* busbw_forward_resolve(ForwardRecord* record) {
  try {
    const RealNccl& real = real_nccl();
    void* function = dlsym(real.handle, record->name);
    // The name for profilers, of a library that has none of those.
    if (!function && record->name[0] == 'p') function = dlsym(real.handle, record->name + 1);
    if (function) {
      __atomic_store_n(&record->target, function, __ATOMIC_RELEASE);
      return function;
    }
    remember(ncclInvalidUsage, text("The NCCL in use (%s, %s) has no %s.", version_text(real.version).c_str(),
                                    real.path.c_str(), record->name));
    return reinterpret_cast<void*>(&missing);
  } catch (const Failure& failure) {
    remember(failure.code(), failure.what());
    return reinterpret_cast<void*>(&without_nccl);
  }
}
}

// The record and the name are the same on every processor.
#define BUSBW_FORWARD_RECORD(name)                                     \
  ".pushsection .rodata.busbw_forward, \"a\"\n"                        \
  "busbw_name_" name ": .string \"" name                               \
  "\"\n"                                                               \
  ".popsection\n"                                                      \
  ".pushsection .data.busbw_forward, \"aw\"\n"                         \
  ".balign 16\n"                                                       \
  "busbw_record_" name ": .quad busbw_lazy_" name ", busbw_name_" name \
  "\n"                                                                 \
  ".popsection\n"

#if defined(__x86_64__)

#define BUSBW_FORWARD_CODE(name)     \
  ".pushsection .text\n"             \
  ".globl " name                     \
  "\n"                               \
  ".type " name ", @function\n" name \
  ": endbr64\n"                      \
  "  jmp *busbw_record_" name        \
  "(%rip)\n"                         \
  "busbw_lazy_" name                 \
  ": endbr64\n"                      \
  "  lea busbw_record_" name         \
  "(%rip), %r11\n"                   \
  "  jmp busbw_forward_lazy\n"       \
  ".size " name ", . - " name        \
  "\n"                               \
  ".popsection\n"

// Saves every register that can carry an argument of the System V ABI.
asm(R"(
.pushsection .text
.type busbw_forward_lazy, @function
busbw_forward_lazy:
  push %rbp
  mov %rsp, %rbp
  and $-16, %rsp
  sub $192, %rsp
  mov %rdi, 0(%rsp)
  mov %rsi, 8(%rsp)
  mov %rdx, 16(%rsp)
  mov %rcx, 24(%rsp)
  mov %r8, 32(%rsp)
  mov %r9, 40(%rsp)
  mov %rax, 48(%rsp)
  movaps %xmm0, 64(%rsp)
  movaps %xmm1, 80(%rsp)
  movaps %xmm2, 96(%rsp)
  movaps %xmm3, 112(%rsp)
  movaps %xmm4, 128(%rsp)
  movaps %xmm5, 144(%rsp)
  movaps %xmm6, 160(%rsp)
  movaps %xmm7, 176(%rsp)
  mov %r11, %rdi
  call busbw_forward_resolve
  mov %rax, %r11
  mov 0(%rsp), %rdi
  mov 8(%rsp), %rsi
  mov 16(%rsp), %rdx
  mov 24(%rsp), %rcx
  mov 32(%rsp), %r8
  mov 40(%rsp), %r9
  mov 48(%rsp), %rax
  movaps 64(%rsp), %xmm0
  movaps 80(%rsp), %xmm1
  movaps 96(%rsp), %xmm2
  movaps 112(%rsp), %xmm3
  movaps 128(%rsp), %xmm4
  movaps 144(%rsp), %xmm5
  movaps 160(%rsp), %xmm6
  movaps 176(%rsp), %xmm7
  leave
  jmp *%r11
.size busbw_forward_lazy, . - busbw_forward_lazy
.popsection
)");

#elif defined(__aarch64__)

#define BUSBW_FORWARD_CODE(name)               \
  ".pushsection .text\n"                       \
  ".balign 4\n"                                \
  ".globl " name                               \
  "\n"                                         \
  ".type " name ", %function\n" name           \
  ": hint #34\n"                               \
  "  adrp x16, busbw_record_" name             \
  "\n"                                         \
  "  ldr x16, [x16, #:lo12:busbw_record_" name \
  "]\n"                                        \
  "  br x16\n"                                 \
  "busbw_lazy_" name                           \
  ": hint #38\n"                               \
  "  adrp x17, busbw_record_" name             \
  "\n"                                         \
  "  add x17, x17, #:lo12:busbw_record_" name  \
  "\n"                                         \
  "  b busbw_forward_lazy\n"                   \
  ".size " name ", . - " name                  \
  "\n"                                         \
  ".popsection\n"

// Saves every register that can carry an argument of the AAPCS64; x8 is where a large result goes.
asm(R"(
.pushsection .text
.balign 4
.type busbw_forward_lazy, %function
busbw_forward_lazy:
  stp x29, x30, [sp, #-224]!
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  stp q0, q1, [sp, #96]
  stp q2, q3, [sp, #128]
  stp q4, q5, [sp, #160]
  stp q6, q7, [sp, #192]
  str x8, [sp, #80]
  mov x0, x17
  bl busbw_forward_resolve
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldp x2, x3, [sp, #32]
  ldp x4, x5, [sp, #48]
  ldp x6, x7, [sp, #64]
  ldp q0, q1, [sp, #96]
  ldp q2, q3, [sp, #128]
  ldp q4, q5, [sp, #160]
  ldp q6, q7, [sp, #192]
  ldr x8, [sp, #80]
  ldp x29, x30, [sp], #224
  br x16
.size busbw_forward_lazy, . - busbw_forward_lazy
.popsection
)");

#else
#error "busbw's GPU library passes calls on by a few instructions that are written for x86-64 and aarch64 only"
#endif

#define BUSBW_FORWARD(name)                                   \
  asm(BUSBW_FORWARD_RECORD(#name) BUSBW_FORWARD_CODE(#name)); \
  asm(BUSBW_FORWARD_RECORD("p" #name) BUSBW_FORWARD_CODE("p" #name));
