#pragma once

#include <vector>

#include "millrace/pipeline/data/copy_strategy.hpp"

namespace millrace {

/**
 * @brief The strategy `ring`: as many slots as batches are held at once, each kept until the end.
 *
 * A slot has 30% more than the largest batch that it was made for. A larger batch gives it back
 * and makes a new one, so that growing batches do not strand outgrown slots.
 */
class RingCopy final : public CopyStrategy {
 public:
  explicit RingCopy(const CopySetting& setting) : CopyStrategy(setting), slots_(setting.depth) {}
  ~RingCopy() override;

 private:
  struct Reader {
    StreamRef stream;
    Event last_read;  ///< where it could not be recorded, the stream's tail is as good
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
