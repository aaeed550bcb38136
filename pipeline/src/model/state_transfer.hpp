#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "millrace/pipeline/model/model_context.hpp"
#include "millrace/pipeline/model/model_state.hpp"

namespace millrace::model {

inline constexpr std::size_t kPiece = std::size_t{1} << 20;  ///< floats

/**
 * @brief Calls `move` for each piece of a tensor, with the piece's place in the tensor, and with
 * `piece` at the right size.
 */
template <typename Move>
void for_each_piece(const StateTensor& tensor, std::vector<float>& piece, Move&& move) {
  for (std::size_t done = 0; done < tensor.size; done += piece.size()) {
    piece.resize(std::min(kPiece, tensor.size - done));
    move(tensor.data + done, piece);
  }
}

/** @brief Passes the numbers of a tensor to `use`, a piece at a time. Makes the host wait for main.
 */
template <typename Use>
void download(const StateTensor& tensor, ModelContext& context, std::vector<float>& room,
              Use&& use) {
  const StreamHandle main = context.main().handle();
  for_each_piece(tensor, room, [&](const float* from, std::vector<float>& piece) {
    context.device().copy(piece.data(), from, piece.size() * sizeof(float), tensor.download(),
                          main);
    context.device().synchronize(main);
    use(std::as_bytes(std::span<const float>{piece}));
  });
}

/**
 * @brief Calls `fill` for each piece of a tensor, and copies the piece to the tensor. Makes the
 * host wait for main.
 */
template <typename Fill>
void upload(const StateTensor& tensor, ModelContext& context, std::vector<float>& room,
            Fill&& fill) {
  const StreamHandle main = context.main().handle();
  for_each_piece(tensor, room, [&](float* to, std::vector<float>& piece) {
    fill(std::as_writable_bytes(std::span<float>{piece}));
    context.device().copy(to, piece.data(), piece.size() * sizeof(float), tensor.upload(), main);
    context.device().synchronize(main);
  });
}

}  // namespace millrace::model
