#include "interop/torch/booked_source.hpp"

#include <string>

#include "millrace/device/error.hpp"

namespace millrace::torch {

BookedSource::BookedSource(SegmentSource& inner, Book& book, TorchPoolId pool,
                           std::size_t small_bytes)
    : inner_(inner), book_(book), pool_(pool), small_bytes_(small_bytes) {}

void BookedSource::claim(std::size_t bytes) const {
  if (book_.claim(bytes)) return;
  throw DeviceError{ErrorCode::out_of_memory, "acquire(" + std::to_string(bytes) + ")",
                    "more than the limit of " + std::to_string(book_.limit()) + " bytes"};
}

void* BookedSource::acquire(std::size_t bytes) {
  claim(bytes);
  void* base = nullptr;
  try {
    base = inner_.acquire(bytes);
  } catch (...) {
    book_.unclaim(bytes);
    throw;
  }
  book_.add_segment(base, bytes, false, bytes == small_bytes_ && Book::cause_is_small(), pool_);
  return base;
}

void BookedSource::release(void* base, std::size_t bytes) {
  book_.remove_segment(base, bytes);  // before the release: another thread may get the address
  inner_.release(base, bytes);
}

void BookedSource::map(void* address, std::size_t bytes) {
  claim(bytes);
  try {
    inner_.map(address, bytes);
  } catch (...) {
    book_.unclaim(bytes);
    throw;
  }
  book_.add_segment(address, bytes, true, false, pool_);
}

void BookedSource::unmap(void* address, std::size_t bytes) {
  inner_.unmap(address, bytes);  // first, because the bytes count against the limit until then
  book_.remove_segment(address, bytes);
}

void BookedSource::begin_move(void* to, void* from, std::size_t bytes) {
  inner_.begin_move(to, from, bytes);
  try {
    book_.move_segment(to, from, bytes, pool_);
  } catch (...) {
    inner_.end_move(to, bytes);
    throw;
  }
}

}  // namespace millrace::torch
