// One constructor per collective; collective.cc lists them.
#pragma once

#include <memory>

#include "engine/collectives/collective.h"

namespace busbw {

std::unique_ptr<Collective> make_all_reduce(const TrafficOptions&);
std::unique_ptr<Collective> make_all_gather(const TrafficOptions&);
std::unique_ptr<Collective> make_reduce_scatter(const TrafficOptions&);
std::unique_ptr<Collective> make_broadcast(const TrafficOptions&);
std::unique_ptr<Collective> make_reduce(const TrafficOptions&);
std::unique_ptr<Collective> make_alltoall(const TrafficOptions&);
std::unique_ptr<Collective> make_alltoallv(const TrafficOptions&);
std::unique_ptr<Collective> make_gather(const TrafficOptions&);
std::unique_ptr<Collective> make_scatter(const TrafficOptions&);
std::unique_ptr<Collective> make_sendrecv(const TrafficOptions&);
std::unique_ptr<Collective> make_hypercube(const TrafficOptions&);

}  // namespace busbw
