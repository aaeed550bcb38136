#pragma once

#include <vector>

#include "millrace/pipeline/data/copy_strategy.hpp"

namespace millrace {

/**
 * @brief The strategy `ring`: one slot for each batch that is in flight at the same time. Slots are
 * kept until the end.
 *
 * A slot is 30% larger than the batch that it was made for. If a batch does not fit, its slot is
 * freed and a larger one is made, so that growing batches do not strand outgrown slots.
 */
class RingCopy final : public CopyStrategy {
 public:
  explicit RingCopy(const CopyEnvironment& environment)
      : CopyStrategy(environment), slots_(environment.depth) {}
  ~RingCopy() override;

 private:
  struct Reader {
    StreamRef stream;
    Event last_read;  ///< if it could not be recorded, the copy waits for the stream's tail
  };
  struct Slot {
    Buffer memory;
    bool held = false;
    std::vector<Reader> readers;
  };

  void place(std::span<const HostTensor> sources, const Parts& batch) override;
  void use(const Parts& batch, StreamRef user) override;
  void give_back(const Parts& batch) override;

  [[nodiscard]] std::size_t next_free();
  void make_room(Slot& slot, std::size_t bytes);

  std::vector<Slot> slots_;
  std::size_t last_ = 0;
};

}  // namespace millrace
