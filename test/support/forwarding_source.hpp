#pragma once

#include "millrace/memory/segment_source.hpp"

namespace millrace::test {

/// Passes all calls on to another source. A test overrides those that it watches.
class ForwardingSource : public SegmentSource {
 public:
  explicit ForwardingSource(SegmentSource& inner) : inner_(inner) {}

  void* acquire(std::size_t bytes) override { return inner_.acquire(bytes); }
  void release(void* base, std::size_t bytes) override { inner_.release(base, bytes); }
  [[nodiscard]] std::size_t granularity() const override { return inner_.granularity(); }
  [[nodiscard]] std::size_t page_bytes() const override { return inner_.page_bytes(); }
  AddressRange reserve() override { return inner_.reserve(); }
  void give_back(AddressRange range) override { inner_.give_back(range); }
  void map(void* address, std::size_t bytes) override { inner_.map(address, bytes); }
  void unmap(void* address, std::size_t bytes) override { inner_.unmap(address, bytes); }
  [[nodiscard]] bool can_move() const override { return inner_.can_move(); }
  void begin_move(void* to, void* from, std::size_t bytes) override {
    inner_.begin_move(to, from, bytes);
  }
  void end_move(void* from, std::size_t bytes) override { inner_.end_move(from, bytes); }

 private:
  SegmentSource& inner_;
};

}  // namespace millrace::test
