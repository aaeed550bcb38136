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
 * @brief The numbers of a model as a checkpoint has them: whole tensors in an order that does not
 *        depend on where they are.
 *
 * Where they are on several ranks, each rank has one of these and reads every tensor in turn; the
 * numbers come out on rank 0.
 */
class WholeState {
 public:
  struct Tensor {
    std::string name;
    std::size_t size = 0;  ///< floats
  };
  struct Counter {
    std::string name;
    std::uint64_t value = 0;
  };
  using Use = std::function<void(std::span<const std::byte>)>;

  virtual ~WholeState() = default;

  [[nodiscard]] virtual std::vector<Tensor> tensors() const = 0;
  [[nodiscard]] virtual std::vector<Counter> counters() const = 0;
  /** @brief Gives `use` the numbers of a tensor, a piece at a time; on rank 0. Waits for main. */
  virtual void read(std::size_t tensor, const Use& use) = 0;

  /** @brief Reads all, for nothing: what the other ranks do while rank 0 writes a checkpoint, or
   *         takes a digest. */
  void send() {
    const std::size_t count = tensors().size();
    for (std::size_t tensor = 0; tensor < count; ++tensor) read(tensor, {});
  }

 protected:
  WholeState() = default;
  WholeState(const WholeState&) = default;
  WholeState& operator=(const WholeState&) = default;
};

/** @brief That of a model with everything on one rank. */
class LocalState final : public WholeState {
 public:
  /** @param context  outlives this */
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
