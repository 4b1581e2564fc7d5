// What this process runs on: the facts that a table's rules are tied to.
#pragma once

#include <string>
#include <string_view>

#include "library/tuner/table.h"

namespace busbw::tuner {

// Facts of a communicator of so many ranks and nodes, of the NCCL whose logger this is. Every fact is one of the node,
// not of a rank, so that all ranks of a node find the same; one that cannot be found out is empty, and no rule is for
// it.
Place facts(std::size_t ranks, std::size_t nodes, Logger logger);

// The version of the library that the address lies in, as its ncclGetVersion gives it; "" where it has none.
std::string nccl_version_of(const void* address);

// A hash over the GPUs, NVLink switches and network adapters on the PCI buses below that folder (/sys/bus/pci/devices),
// with their NUMA nodes and widest links, and over the text of the topology file that NCCL was given. The buses' own
// numbers are left out: equal machines of a cloud number them as they like.
struct Topology {
  std::string hash;    // 16 hexadecimal digits
  bool mixed = false;  // GPUs of several kinds: no rank's name speaks for all
};
Topology topology_of(const char* devices, const char* topology_file);

// FNV-1a, 64 bits, in hexadecimal.
std::string hash_of(std::string_view text);

}  // namespace busbw::tuner
