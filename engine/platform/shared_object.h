// A library opened at run time.
#pragma once

#include <string>

namespace busbw {

class SharedObject {
 public:
  // Throws Error(bad_arguments) with the loader's reason. Never closed again: NCCL and CUDA keep threads and exit
  // handlers that would run into unmapped code.
  explicit SharedObject(const std::string& path);

  // Null where the symbol is missing.
  void* find(const char* symbol) const;

  template <typename Function>
  Function* find(const char* symbol) const {
    return reinterpret_cast<Function*>(find(symbol));
  }

  // The file that was really opened.
  std::string resolved_path(void* symbol_inside) const;

 private:
  void* handle_ = nullptr;
};

}  // namespace busbw
