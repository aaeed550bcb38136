#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "millrace/pipeline/model/model_context.hpp"
#include "millrace/pipeline/model/model_state.hpp"

namespace millrace::model {

inline constexpr std::size_t kPiece = std::size_t{1} << 20;  ///< floats

/** @brief Passes the numbers of a tensor to `use`, a piece at a time. Makes the host wait for main.
 */
template <typename Use>
void download(const StateTensor& tensor, ModelContext& context, std::vector<float>& piece,
              Use&& use) {
  const StreamHandle main = context.main().handle();
  for (std::size_t done = 0; done < tensor.size; done += piece.size()) {
    piece.resize(std::min(kPiece, tensor.size - done));
    context.device().copy(piece.data(), tensor.data + done, piece.size() * sizeof(float),
                          tensor.download(), main);
    context.device().synchronize(main);
    use(std::as_bytes(std::span<const float>{piece}));
  }
}

/** @brief Calls `fill` for each piece of a tensor, and copies it there. Makes the host wait for
 * main.
 */
template <typename Fill>
void upload(const StateTensor& tensor, ModelContext& context, std::vector<float>& piece,
            Fill&& fill) {
  const StreamHandle main = context.main().handle();
  for (std::size_t done = 0; done < tensor.size; done += piece.size()) {
    piece.resize(std::min(kPiece, tensor.size - done));
    fill(std::as_writable_bytes(std::span<float>{piece}));
    context.device().copy(tensor.data + done, piece.data(), piece.size() * sizeof(float),
                          tensor.upload(), main);
    context.device().synchronize(main);
  }
}

}  // namespace millrace::model
