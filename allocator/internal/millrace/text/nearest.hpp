#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace::text {

/** @brief The known name that was probably meant: few letters differ; "" if none is near. */
[[nodiscard]] std::string nearest(std::string_view name, const std::vector<std::string>& known);

}  // namespace millrace::text
