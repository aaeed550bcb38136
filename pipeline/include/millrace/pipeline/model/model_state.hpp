#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

/** @brief FP32 numbers of a model in device memory. */
struct StateTensor {
  std::string name;  ///< "table.user.weights", "over.0.weight", ...
  float* data = nullptr;
  std::size_t size = 0;  ///< floats
};

/** @brief A number of a model that the host keeps. */
struct StateCounter {
  std::string name;
  std::uint64_t* value = nullptr;
};

/** @brief Everything that a checkpoint of a model keeps, in an order that depends on its
 *         configuration only. Valid as long as the model. */
struct ModelState {
  std::vector<StateTensor> tensors;
  std::vector<StateCounter> counters;
};

}  // namespace millrace
