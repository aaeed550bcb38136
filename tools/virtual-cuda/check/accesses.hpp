#pragma once

#include <vector>

#include "engine/access.hpp"
#include "engine/work.hpp"

namespace millrace::virtual_cuda {

[[nodiscard]] std::vector<Access> accesses_of(const CopyWork& copy);
[[nodiscard]] std::vector<Access> accesses_of(const FillWork& fill);

}  // namespace millrace::virtual_cuda
