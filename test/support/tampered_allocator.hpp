#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "millrace/memory/forwarding_allocator.hpp"
#include "test/support/long_past.hpp"

namespace millrace::test {

/// An allocator that ignores reported uses or frees too early. The program does not know of it.
/// Several may wrap one allocator, each for a part of the program.
class TamperedAllocator final : public ForwardingAllocator {
 public:
  /// @param what  name of what this part allocates, for example "batch"
  TamperedAllocator(Allocator& inner, std::string what)
      : ForwardingAllocator(inner), what_(std::move(what)) {}

  /// "batch used by main" ignores record_use. "batch freed by main's marker" frees after a marker
  /// long past instead.
  void leave_out(std::string telling) { left_out_ = std::move(telling); }
  /// Returns how often each report was made or left out.
  [[nodiscard]] const std::map<std::string, std::size_t>& reports() const noexcept {
    return reports_;
  }

  using ForwardingAllocator::deallocate;
  void deallocate(void* address, Point marker) override {
    const bool late = leaves_out("freed by", marker.stream, "'s marker");
    ForwardingAllocator::deallocate(address, late ? kLongPast : marker);
  }
  void record_use(void* address, StreamRef stream) override {
    if (!leaves_out("used by", stream.id())) ForwardingAllocator::record_use(address, stream);
  }

 private:
  bool leaves_out(const char* verb, StreamId stream, const char* more = "") {
    const std::string telling = what_ + ' ' + verb + ' ' + device().name(stream) + more;
    ++reports_[telling];
    return telling == left_out_;
  }

  std::string what_, left_out_;
  std::map<std::string, std::size_t> reports_;
};

}  // namespace millrace::test
