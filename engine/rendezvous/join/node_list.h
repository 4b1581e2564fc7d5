// Slurm's short forms: "node[01-03,07],login" for hosts and "2(x3),1" for the tasks of each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace busbw {

// Throws Error(bad_arguments) with a sentence quoting the list when it is malformed or names more than 65536 hosts.
std::vector<std::string> expand_node_list(std::string_view list);
std::vector<int> expand_tasks_per_node(std::string_view list);

}  // namespace busbw
