// alltoallv: every rank sends each other rank its own number of bytes, by a formula or a matrix from a file.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <tuple>

#include "engine/collectives/point_to_point.h"
#include "engine/collectives/questions.h"
#include "engine/collectives/registry.h"
#include "engine/core/error.h"

namespace busbw {
namespace {

// Parts are multiples of 16 bytes, as in the other collectives.
constexpr std::size_t part_alignment = 16;

class Alltoallv : public Collective {
 public:
  explicit Alltoallv(TrafficOptions traffic) : traffic_(std::move(traffic)) {}

  std::string_view name() const override { return "alltoallv"; }
  bool checked_in_place() const override { return false; }

  Geometry geometry(Bytes bytes, DataType type, Seat seat) const override {
    Geometry g{.type = type};
    g.count = traffic_.matrix.empty() ? aligned_count(bytes, type, seat.ranks) : 0;
    std::tie(g.send_elements, g.recv_elements) = sums(g, type, seat.rank, seat.ranks);
    // The generated pattern gives every rank the same totals; a matrix need not.
    g.span_elements = std::max(g.send_elements, g.recv_elements);
    for (int r = 0; r < seat.ranks && !traffic_.matrix.empty(); ++r) {
      const auto [sent, received] = sums(g, type, r, seat.ranks);
      g.span_elements = std::max({g.span_elements, sent, received});
    }
    g.algorithm_elements = static_cast<double>(g.span_elements);
    return g;
  }

  double bus_factor(int ranks) const override { return double(ranks - 1) / ranks; }

  std::vector<Segment> expected(const Geometry& g, Seat seat, int, bool) const override {
    std::vector<Segment> parts;
    std::size_t offset = 0;
    for (int from = 0; from < seat.ranks; ++from) {
      const std::size_t count = part(g, g.type, from, seat.rank, seat.ranks);
      std::size_t source_offset = 0;
      for (int to = 0; to < seat.rank; ++to) source_offset += part(g, g.type, from, to, seat.ranks);
      parts.push_back({.offset = offset, .count = count, .rank = from, .source_offset = source_offset});
      offset += count;
    }
    return parts;
  }

  ncclResult_t enqueue(const Call& c) const override {
    if (const ncclResult_t asked = ask_size_and_rank(c); asked != ncclSuccess) return asked;
    return in_group(c.nccl, [&] {
      ncclResult_t result = ncclSuccess;
      std::size_t send_offset = 0;
      std::size_t recv_offset = 0;
      for (int peer = 0; peer < c.seat.ranks && result == ncclSuccess; ++peer) {
        const std::size_t sent = part(c.geometry, c.type, c.seat.rank, peer, c.seat.ranks);
        const std::size_t received = part(c.geometry, c.type, peer, c.seat.rank, c.seat.ranks);
        if (sent > 0) result = send_to(c, send_offset, sent, peer);
        if (received > 0 && result == ncclSuccess) result = recv_from(c, recv_offset, received, peer);
        send_offset += sent;
        recv_offset += received;
      }
      return result;
    });
  }

  // The words and digits of nccl-tests, whose lines land inside the row.
  std::vector<std::string> notes(Bytes requested, DataType type, int ranks, Seconds time) const override {
    if (!traffic_.summary) return {};
    const Geometry g = geometry(requested, type, {0, ranks});
    const std::size_t width = element_size(type);
    const std::string mode =
        traffic_.matrix.empty()
            ? format("generated nranks=%d total_bytes=%zu spread=%.3f", ranks,
                     g.count * static_cast<std::size_t>(ranks) * width, traffic_.spread)
            : format("matrix nranks=%d matrix_dim=%zu scale=%.3f", ranks, traffic_.matrix.size(), traffic_.scale);
    std::vector<std::string> lines{
        format("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=%s time_usec=%.2f", mode.c_str(), time.count() * 1e6)};
    for (int rank = 0; rank < ranks; ++rank) {
      const auto [sent, received] = sums(g, type, rank, ranks);
      const double algbw = gigabytes_per_second(static_cast<double>(std::max(sent, received) * width), time);
      lines.push_back(format("  rank=%d send_bytes=%zu recv_bytes=%zu alg_bw=%.2f bus_bw=%.2f", rank, sent * width,
                             received * width, algbw, algbw * bus_factor(ranks)));
    }
    return lines;
  }

  std::string why_not(const NcclFunctions& nccl, int ranks) const override {
    if (!traffic_.matrix.empty() && traffic_.matrix.size() < static_cast<std::size_t>(ranks))
      return format("the traffic matrix has %zu rows for %d ranks", traffic_.matrix.size(), ranks);
    return needs_send_recv(nccl);
  }

 private:
  // Elements that a rank sends and receives.
  std::pair<std::size_t, std::size_t> sums(const Geometry& g, DataType type, int rank, int ranks) const {
    std::pair<std::size_t, std::size_t> sent_and_received{0, 0};
    for (int peer = 0; peer < ranks; ++peer) {
      sent_and_received.first += part(g, type, rank, peer, ranks);
      sent_and_received.second += part(g, type, peer, rank, ranks);
    }
    return sent_and_received;
  }

  // Elements that `from` sends to `to`.
  std::size_t part(const Geometry& g, DataType type, int from, int to, int ranks) const {
    const std::size_t width = element_size(type);
    if (!traffic_.matrix.empty())
      return traffic_.matrix[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)] / width;
    const double total = static_cast<double>(g.count * static_cast<std::size_t>(ranks) * width);
    if (ranks == 1) return g.count;
    const int distance = (to - from + ranks) % ranks;
    const double even = total / ranks;
    const double by_distance = total * distance / (double(ranks) * (ranks - 1) / 2);
    const double bytes = (1.0 - traffic_.spread) * even + traffic_.spread * by_distance;
    const auto whole = static_cast<std::size_t>(bytes);
    return (whole - whole % part_alignment) / width;
  }

  TrafficOptions traffic_;
};

double number_from_environment(const char* variable, double fallback, double low, double high) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return fallback;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end == text || *end != '\0' || !std::isfinite(value))
    throw Error(ExitCode::bad_arguments, format("%s is '%s', which is no number", variable, text));
  return std::clamp(value, low, high);
}

std::vector<std::size_t> matrix_row(const std::string& line, const std::string& where, double scale) {
  std::vector<std::size_t> row;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end) * scale;
    if (*end != '\0' || !(value >= 0) || value > 1e18)
      throw Error(ExitCode::bad_arguments, where + ": '" + word.substr(0, 40) + "' is no number of bytes");
    const auto bytes = static_cast<std::size_t>(value);
    row.push_back(bytes - bytes % part_alignment);
  }
  return row;
}

std::vector<std::vector<std::size_t>> matrix_from(const char* path, double scale) {
  constexpr std::size_t largest = 16384;
  std::ifstream file(path);
  if (!file) throw Error(ExitCode::bad_arguments, format("cannot read the traffic matrix %s", path));
  std::vector<std::vector<std::size_t>> matrix;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::vector<std::size_t> row = matrix_row(line, format("%s line %zu", path, number), scale);
    if (row.empty()) continue;
    matrix.push_back(std::move(row));
    if (matrix.back().size() != matrix.front().size() || matrix.size() > largest || matrix.front().size() > largest)
      throw Error(
          ExitCode::bad_arguments,
          format("%s line %zu: the traffic matrix must be square, of at most %zu ranks", path, number, largest));
  }
  if (matrix.empty() || matrix.size() != matrix.front().size())
    throw Error(ExitCode::bad_arguments, format("%s: the traffic matrix must be square and not empty", path));
  return matrix;
}

}  // namespace

TrafficOptions traffic_from_environment() {
  TrafficOptions options;
  options.spread = number_from_environment("NCCL_TESTS_ALLTOALLV_SPREAD", 1.0, 0.0, 1.0);
  options.scale = number_from_environment("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", 1.0, 0.0, 1e9);
  options.summary = number_from_environment("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY", 0.0, -1e9, 1e9) != 0;
  if (const char* path = std::getenv("NCCL_TESTS_ALLTOALLV_MATRIX_FILE"))
    options.matrix = matrix_from(path, options.scale);
  return options;
}

std::unique_ptr<Collective> make_alltoallv(const TrafficOptions& traffic) {
  return std::make_unique<Alltoallv>(traffic);
}

}  // namespace busbw
