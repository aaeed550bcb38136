#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/pipeline/kernels/array_view.hpp"
#include "millrace/pipeline/kernels/host_device.hpp"

/// @file
/// How kernels reach the parameters of rows: in the tables, or at the slots of a cache of rows.

namespace millrace::model {

inline constexpr std::int32_t kNoSlot = -1;  ///< the row is in host memory only

/** @brief Where the parameters of a row begin. Second moments begin where weights do. */
struct RowPlace {
  std::size_t weights = 0, first_moment = 0;
};

/** @brief The parameters of one row, or of all rows from the first on. */
template <typename T>
struct RowPointers {
  T* weights = nullptr;
  T* first_moment = nullptr;   ///< null: the optimizer keeps none
  T* second_moment = nullptr;  ///< null: the optimizer keeps none

  [[nodiscard]] MILLRACE_HOST_DEVICE RowPointers at(RowPlace place) const {
    return {weights + place.weights,
            first_moment == nullptr ? nullptr : first_moment + place.first_moment,
            second_moment == nullptr ? nullptr : second_moment + place.weights};
  }
};

/** @brief The storage of rows, in their tables or at cache slots: weights and optimizer state. */
template <typename T>
struct RowStorage {
  ArrayView<T> weights;
  ArrayView<T> first_moment;   ///< none: the optimizer keeps none
  ArrayView<T> second_moment;  ///< none: the optimizer keeps none

  [[nodiscard]] MILLRACE_HOST_DEVICE RowPointers<T> all() const {
    return {weights.data(), first_moment.empty() ? nullptr : first_moment.data(),
            second_moment.empty() ? nullptr : second_moment.data()};
  }
};

}  // namespace millrace::model
