#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace millrace::virtual_cuda {

/** @brief A parameter of a kernel that is a pointer. */
struct PointerParameter {
  std::size_t index = 0;
  bool writes = false;  ///< the pointee is not const
};

/**
 * @brief The parameters of a kernel that are pointers, by its readable name.
 * @param readable  as c++filt prints it: "void app::add<float>(float const*, float*, int)"
 * @return nothing if the name has no parameter list, such as that of an extern "C" function
 */
[[nodiscard]] std::optional<std::vector<PointerParameter>> pointer_parameters(
    std::string_view readable);

/** @brief The name without parameters and return type: "app::add<float>". */
[[nodiscard]] std::string_view function_name(std::string_view readable);

}  // namespace millrace::virtual_cuda
