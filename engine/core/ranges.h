// Numbers in ascending order, as people and the kernel write them: "0-2,7".
#pragma once

#include <string>
#include <vector>

namespace busbw {

std::string ranges(const std::vector<int>& numbers);

}  // namespace busbw
