#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "millrace/pipeline/model/model_context.hpp"
#include "millrace/pipeline/model/model_state.hpp"

namespace millrace {

/**
 * @brief The state of a model for a checkpoint: whole tensors, in an order that does not depend on
 *        the ranks or the plan.
 *
 * With several ranks, each rank has such an object and must read every tensor in turn; rank 0 gets
 * the data.
 */
class WholeState {
 public:
  /** @brief One tensor of a checkpoint. */
  struct Tensor {
    std::string name;
    std::size_t size = 0;  ///< floats
  };
  /** @brief One number of a checkpoint, such as the steps so far. */
  struct Counter {
    std::string name;
    std::uint64_t value = 0;
  };
  using Use = std::function<void(std::span<const std::byte>)>;  ///< gets bytes of a tensor

  virtual ~WholeState() = default;

  [[nodiscard]] virtual std::vector<Tensor> tensors() const = 0;
  [[nodiscard]] virtual std::vector<Counter> counters() const = 0;
  /**
   * @brief Reads a tensor. Blocks until main is idle.
   * @param tensor  index in `tensors()`
   * @param use     on rank 0, called with the tensor's bytes, a piece at a time
   */
  virtual void read(std::size_t tensor, const Use& use) = 0;

  /** @brief Reads all tensors without using them. The other ranks call it while rank 0 writes a
   *         checkpoint or computes a digest. */
  void send() {
    const std::size_t count = tensors().size();
    for (std::size_t tensor = 0; tensor < count; ++tensor) read(tensor, {});
  }

 protected:
  WholeState() = default;
  WholeState(const WholeState&) = default;
  WholeState& operator=(const WholeState&) = default;
};

/** @brief The state of a model on one rank. */
class LocalState final : public WholeState {
 public:
  /** @param context  outlives this object */
  LocalState(ModelState state, ModelContext& context)
      : state_(std::move(state)), context_(context) {}

  [[nodiscard]] std::vector<Tensor> tensors() const override;
  [[nodiscard]] std::vector<Counter> counters() const override;
  void read(std::size_t tensor, const Use& use) override;

 private:
  const ModelState state_;
  ModelContext& context_;
};

}  // namespace millrace
