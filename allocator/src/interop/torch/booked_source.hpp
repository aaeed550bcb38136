#pragma once

#include "interop/torch/book.hpp"
#include "millrace/memory/segment_source.hpp"

namespace millrace::torch {

/** @brief Enters the segments of another source into a book, and keeps them below its limit. */
class BookedSource final : public SegmentSource {
 public:
  /**
   * @param inner        outlives this object
   * @param small_bytes  size of the segments that serve small requests
   */
  BookedSource(SegmentSource& inner, Book& book, TorchPoolId pool, std::size_t small_bytes);

  void* acquire(std::size_t bytes) override;
  void release(void* base, std::size_t bytes) override;
  [[nodiscard]] std::size_t granularity() const override { return inner_.granularity(); }
  [[nodiscard]] std::size_t page_bytes() const override { return inner_.page_bytes(); }
  AddressRange reserve() override { return inner_.reserve(); }
  void give_back(AddressRange range) override { inner_.give_back(range); }
  void map(void* address, std::size_t bytes) override;
  void unmap(void* address, std::size_t bytes) override;
  [[nodiscard]] bool can_move() const override { return inner_.can_move(); }
  void begin_move(void* to, void* from, std::size_t bytes) override;
  void end_move(void* from, std::size_t bytes) override { inner_.end_move(from, bytes); }

 private:
  void claim(std::size_t bytes) const;

  SegmentSource& inner_;
  Book& book_;
  const TorchPoolId pool_;
  const std::size_t small_bytes_;
};

}  // namespace millrace::torch
