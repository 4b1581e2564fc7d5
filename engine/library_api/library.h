// The NCCL functions of one loaded library: what it offers, what it lacks and why.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "busbw/nccl_abi.h"
#include "engine/core/data_type.h"
#include "engine/core/error.h"
#include "engine/library_api/functions.h"
#include "engine/platform/shared_object.h"

namespace busbw {

// Something of the API that an old or partial library does not have. A case that needs it is skipped with the reason.
struct Lack {
  std::string feature;
  std::string reason;
};

class Library {
 public:
  // Loads the library at `path`. Throws Error(bad_arguments) when it is no library or exports too little of the NCCL
  // API to make a communicator.
  explicit Library(const std::string& path);

  const NcclFunctions& nccl() const { return functions_; }

  // As printed for people: "busbw CPU library 0.1.0" or "NCCL".
  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }
  int version_code() const { return version_code_; }
  std::string version_text() const;
  const std::vector<Lack>& lacks() const { return lacks_; }

  // At least this API level, as ncclGetVersion codes it: at_least(2, 28, 7).
  bool at_least(int major, int minor, int patch) const;

  // Throws Error(nccl) with NCCL's own words for anything but success. `what` says which call, where.
  void check(ncclResult_t result, const char* what, ncclComm_t comm = nullptr) const;
  std::string last_error(ncclComm_t comm = nullptr) const;

  // How the library would do this call, in its own words; empty where it has none. `collective` as the engine names it.
  struct Question {
    std::string_view collective;
    const void* send;
    const void* recv;
    std::size_t count;
    DataType type;
    RedOp op;
  };
  std::string explain(const Question& call, ncclComm_t comm) const;

  // Why a case with this type or operation cannot run, or an empty string.
  std::string why_not(DataType type) const;
  std::string why_not(RedOp op) const;

 private:
  void find_functions();
  void note_lacks();

  SharedObject object_;
  NcclFunctions functions_{};
  busbwExplainCall_t* explain_ = nullptr;
  std::string name_;
  std::string path_;
  int version_code_ = 0;
  std::vector<Lack> lacks_;
};

// "2.28.9" from 22809 and "2.7.8" from 2708.
std::string version_text(int version_code);
int version_code(int major, int minor, int patch);

// Inside ncclGroupStart/ncclGroupEnd while it lives. end() reports errors; the destructor closes a group left by a
// throw.
class Group {
 public:
  explicit Group(const Library& library);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  void end();

 private:
  const Library& library_;
  bool open_ = true;
};

}  // namespace busbw
