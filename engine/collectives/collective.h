// What busbw knows of one collective: buffer sizes, bandwidth factor, inputs, expected result, and the call itself.
//
// A new collective is one file with a class, one line in collective.cc, and its test.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "busbw/nccl_abi.h"
#include "engine/core/data_type.h"
#include "engine/core/pattern.h"
#include "engine/core/units.h"

namespace busbw {

struct NcclFunctions;

// Buffers and counts of one size on one rank, in elements.
struct Geometry {
  DataType type = DataType::float32;
  std::size_t count = 0;          // passed to the call and shown in the table
  std::size_t send_elements = 0;  // this rank's send buffer
  std::size_t recv_elements = 0;  // this rank's receive buffer, checked as a whole
  std::size_t in_place_send = 0;  // where the send buffer starts inside the receive buffer when in place
  std::size_t in_place_recv = 0;  // where the receive buffer starts in its allocation when in place
  std::size_t span_elements = 0;  // the larger of both over all ranks: size column, and the step of rotation
  double algorithm_elements = 0;  // elements that algbw counts
};

// Where one rank stands in its communicator.
struct Seat {
  int rank = 0;
  int ranks = 1;
};

struct Call {
  const NcclFunctions& nccl;
  // Copies within one device in stream order; only hypercube needs it.
  const std::function<void(void* to, const void* from, std::size_t bytes)>& copy;
  const char* send = nullptr;
  char* recv = nullptr;
  Geometry geometry;
  DataType type = DataType::float32;
  ncclRedOp_t op = ncclSum;
  int root = 0;
  Seat seat;
  ncclComm_t comm = nullptr;
  ncclStream_t stream = nullptr;
  int step = 0;
};

class Collective {
 public:
  virtual ~Collective() = default;

  virtual std::string_view name() const = 0;  // all_reduce
  std::string program() const { return std::string(name()) + "_perf"; }

  // Sizes for a request of `bytes` per rank. Counts of gather-like collectives are rounded down to 16 bytes a rank.
  virtual Geometry geometry(Bytes bytes, DataType type, Seat seat) const = 0;

  // Bus bandwidth over algorithm bandwidth, doc/PERFORMANCE.md of nccl-tests.
  virtual double bus_factor(int ranks) const = 0;

  virtual bool reduces() const { return false; }  // takes an operation
  virtual bool rooted() const { return false; }   // takes a root
  virtual bool checked_in_place() const { return true; }
  // The words of the redop column: the operation's name where it is listed even without meaning, else none.
  virtual std::string_view op_column(RedOp op) const { return reduces() ? busbw::name(op) : std::string_view("none"); }

  // Contents of the send buffer before the call.
  virtual std::vector<Segment> inputs(const Geometry& geometry, Seat seat, int root) const;
  // Contents of the receive buffer after the call; what no segment covers is zero.
  virtual std::vector<Segment> expected(const Geometry& geometry, Seat seat, int root, bool in_place) const = 0;

  // Lines about one placement of a case that took `time`, for below its row; none unless the user asked for them.
  virtual std::vector<std::string> notes(Bytes /*requested*/, DataType /*type*/, int /*ranks*/,
                                         Seconds /*time*/) const {
    return {};
  }

  // Calls that depend on each other and so must not share a group: more than one only for hypercube.
  virtual int steps(int /*ranks*/) const { return 1; }

  // Enqueues one step. Returns NCCL's result; the caller knows which call it was.
  virtual ncclResult_t enqueue(const Call& call) const = 0;

  // Why this collective cannot run on so many ranks or with this library, or an empty string.
  virtual std::string why_not(const NcclFunctions& nccl, int ranks) const = 0;
};

// Settings of alltoallv, NCCL_TESTS_ALLTOALLV_* in the environment.
struct TrafficOptions {
  double spread = 1.0;                           // 0: equal shares, 1: in proportion to the distance between ranks
  std::vector<std::vector<std::size_t>> matrix;  // bytes from i to j; empty: the generated pattern
  double scale = 1.0;                            // what the matrix of the file was multiplied by
  bool summary = false;                          // a line per rank below each row
};

// Reads NCCL_TESTS_ALLTOALLV_*. Throws Error(bad_arguments) for an unreadable or ill-formed matrix.
TrafficOptions traffic_from_environment();

// Names in the order of the help text.
const std::vector<std::string_view>& collective_names();
// Null for an unknown name.
std::unique_ptr<Collective> make_collective(std::string_view name, const TrafficOptions& traffic = {});

// floor(bytes / element size / ranks), rounded down so that every rank's part is a multiple of 16 bytes.
std::size_t aligned_count(Bytes bytes, DataType type, int ranks);
std::size_t whole_count(Bytes bytes, DataType type);

}  // namespace busbw
