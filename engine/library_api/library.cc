// Finding the NCCL functions of a library and saying what it lacks.
#include "engine/library_api/library.h"

#include <algorithm>
#include <array>
#include <utility>

namespace busbw {

std::string version_text(int code) {
  // NCCL codes 2.8 and older as X.Y.Z = XYZ0-like thousands, newer ones as tens of thousands.
  if (code < 10000) return format("%d.%d.%d", code / 1000, code / 100 % 10, code % 100);
  return format("%d.%d.%d", code / 10000, code / 100 % 100, code % 100);
}

int version_code(int major, int minor, int patch) {
  return major <= 2 && minor <= 8 ? major * 1000 + minor * 100 + patch : major * 10000 + minor * 100 + patch;
}

Library::Library(const std::string& path) : object_(path) {
  find_functions();
  path_ = object_.resolved_path(reinterpret_cast<void*>(functions_.get_version));
  if (const auto own_name = object_.find<busbwLibraryName_t>("busbwLibraryName")) {
    name_ = own_name();
  } else {
    name_ = "NCCL";
  }
  explain_ = object_.find<busbwExplainCall_t>("busbwExplainCall");
  check(functions_.get_version(&version_code_), "ncclGetVersion");
  note_lacks();
}

void Library::find_functions() {
  std::string missing;
  const auto required = [&](auto*& function, const char* symbol) {
    function = object_.find<std::remove_reference_t<decltype(*function)>>(symbol);
    if (function == nullptr) missing += std::string(missing.empty() ? "" : ", ") + symbol;
  };
  const auto optional = [&](auto*& function, const char* symbol) {
    function = object_.find<std::remove_reference_t<decltype(*function)>>(symbol);
    if (function == nullptr) lacks_.push_back({symbol, std::string("the library exports no ") + symbol});
  };
  required(functions_.get_version, "ncclGetVersion");
  required(functions_.get_unique_id, "ncclGetUniqueId");
  required(functions_.comm_init_rank, "ncclCommInitRank");
  required(functions_.comm_destroy, "ncclCommDestroy");
  required(functions_.get_error_string, "ncclGetErrorString");
  required(functions_.group_start, "ncclGroupStart");
  required(functions_.group_end, "ncclGroupEnd");
  if (!missing.empty())
    throw Error(ExitCode::bad_arguments, "the library given to --library is not an NCCL: it exports no " + missing +
                                             "; give a path to a shared library that exports the NCCL API");
  optional(functions_.comm_init_rank_config, "ncclCommInitRankConfig");
  optional(functions_.comm_abort, "ncclCommAbort");
  optional(functions_.comm_get_async_error, "ncclCommGetAsyncError");
  // Every NCCL has them; a library without loses nothing but the time that they take.
  functions_.comm_count = object_.find<ncclCommCount_t>("ncclCommCount");
  functions_.comm_user_rank = object_.find<ncclCommUserRank_t>("ncclCommUserRank");
  optional(functions_.get_last_error, "ncclGetLastError");
  optional(functions_.mem_alloc, "ncclMemAlloc");
  optional(functions_.mem_free, "ncclMemFree");
  optional(functions_.comm_register, "ncclCommRegister");
  optional(functions_.comm_deregister, "ncclCommDeregister");
  optional(functions_.comm_window_register, "ncclCommWindowRegister");
  optional(functions_.comm_window_deregister, "ncclCommWindowDeregister");
  optional(functions_.red_op_create_pre_mul_sum, "ncclRedOpCreatePreMulSum");
  optional(functions_.red_op_destroy, "ncclRedOpDestroy");
  optional(functions_.all_reduce, "ncclAllReduce");
  optional(functions_.all_gather, "ncclAllGather");
  optional(functions_.reduce_scatter, "ncclReduceScatter");
  optional(functions_.broadcast, "ncclBroadcast");
  optional(functions_.reduce, "ncclReduce");
  optional(functions_.send, "ncclSend");
  optional(functions_.recv, "ncclRecv");
  optional(functions_.alltoall, "ncclAlltoAll");
  optional(functions_.gather, "ncclGather");
  optional(functions_.scatter, "ncclScatter");
}

void Library::note_lacks() {
  for (const DataType type : all_data_types)
    if (std::string reason = why_not(type); !reason.empty()) lacks_.push_back({std::string(busbw::name(type)), reason});
  for (const RedOp op : all_red_ops)
    if (std::string reason = why_not(op); !reason.empty()) lacks_.push_back({std::string(busbw::name(op)), reason});
}

std::string Library::version_text() const { return busbw::version_text(version_code_); }

bool Library::at_least(int major, int minor, int patch) const {
  return version_code_ >= busbw::version_code(major, minor, patch);
}

std::string Library::last_error(ncclComm_t comm) const {
  if (functions_.get_last_error == nullptr) return "";
  const char* text = functions_.get_last_error(comm);
  return text != nullptr ? text : "";
}

void Library::check(ncclResult_t result, const char* what, ncclComm_t comm) const {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const std::string detail = last_error(comm);
  throw Error(ExitCode::nccl, format("%s failed: %s%s%s", what, functions_.get_error_string(result),
                                     detail.empty() ? "" : " / ", detail.c_str()));
}

std::string Library::explain(const Question& call, ncclComm_t comm) const {
  constexpr std::pair<std::string_view, int> numbers[] = {{"all_reduce", busbwAllReduce},
                                                          {"all_gather", busbwAllGather},
                                                          {"reduce_scatter", busbwReduceScatter},
                                                          {"alltoall", busbwAllToAll},
                                                          {"broadcast", busbwBroadcast}};
  const auto* const known = std::find_if(std::begin(numbers), std::end(numbers),
                                         [&](const auto& entry) { return entry.first == call.collective; });
  if (explain_ == nullptr || known == std::end(numbers)) return "";
  std::array<char, 256> words{};
  const auto nccl_op = call.op == RedOp::mulsum ? ncclNumOps : static_cast<ncclRedOp_t>(call.op);
  if (explain_(comm, known->second, call.send, call.recv, call.count, static_cast<ncclDataType_t>(call.type), nccl_op,
               words.data(), words.size()) != 0)
    return "";
  words.back() = '\0';
  std::string text = words.data();
  // It goes into a table and a record: one line of printable characters.
  std::replace_if(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

std::string Library::why_not(DataType type) const {
  switch (type) {
    case DataType::bfloat16:
      return at_least(2, 10, 0) ? "" : "bfloat16 needs NCCL 2.10 or newer; this is " + version_text();
    case DataType::f8e4m3:
    case DataType::f8e5m2:
      return at_least(2, 24, 0) ? "" : "fp8 needs NCCL 2.24 or newer; this is " + version_text();
    case DataType::int8:
    case DataType::uint8:
    case DataType::int32:
    case DataType::uint32:
    case DataType::int64:
    case DataType::uint64:
    case DataType::float16:
    case DataType::float32:
    case DataType::float64:
      return "";
  }
  return "";
}

std::string Library::why_not(RedOp op) const {
  switch (op) {
    case RedOp::avg:
      return at_least(2, 10, 0) ? "" : "avg needs NCCL 2.10 or newer; this is " + version_text();
    case RedOp::mulsum:
      return at_least(2, 11, 0) && functions_.red_op_create_pre_mul_sum != nullptr
                 ? ""
                 : "mulsum needs ncclRedOpCreatePreMulSum of NCCL 2.11 or newer; this is " + version_text();
    case RedOp::sum:
    case RedOp::prod:
    case RedOp::max:
    case RedOp::min:
      return "";
  }
  return "";
}

Group::Group(const Library& library) : library_(library) {
  library_.check(library_.nccl().group_start(), "ncclGroupStart");
}

Group::~Group() {
  // A throw left the group: close it so that the thread can abort its communicators, and let the throw speak.
  if (open_) library_.nccl().group_end();
}

void Group::end() {
  open_ = false;
  library_.check(library_.nccl().group_end(), "ncclGroupEnd");
}

}  // namespace busbw
