#pragma once

#include <vector>

#include "allocator/subjects/subject.hpp"

namespace millrace::bench {

/// The calls of a program whose allocator knows only one stream per block: before a free, the
/// block's stream waits for the streams that also used the block.
class Peer : public Subject {
 public:
  Peer(Machine& machine, unsigned streams);
  ~Peer() override;

  void free_used(void* address, std::size_t bytes, unsigned stream,
                 std::span<const unsigned> users) override;
  void mark(unsigned) override {}
  void record(unsigned event, unsigned stream) override;
  void wait(unsigned stream, unsigned event) override;
  CallCounts calls() const override { return counted_calls() - before_; }
  std::size_t peak_reserved() const override { return machine_.peak_reserved(); }
  void use_one_shot_stream(std::size_t bytes) override;

 protected:
  [[nodiscard]] StreamHandle handle(unsigned stream) {
    while (stream >= streams_.size()) [[unlikely]] {
        streams_.push_back(machine_.create_stream(false));
      }
    return streams_[stream];
  }
  [[nodiscard]] std::size_t stream_count() const noexcept { return streams_.size(); }
  [[nodiscard]] Driver& driver() { return driver_; }

 private:
  EventHandle event(unsigned number);

  Machine& machine_;
  Driver& driver_;
  CallCounts before_ = counted_calls();
  std::vector<StreamHandle> streams_;
  std::vector<EventHandle> events_;
  EventHandle used_{};
};

}  // namespace millrace::bench
