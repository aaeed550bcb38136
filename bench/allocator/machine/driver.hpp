#pragma once

#include <cstddef>

#include "allocator/machine/calls.hpp"

namespace millrace::bench {

/// The CUDA runtime calls of allocators other than Millrace, and of programs that use them. Each
/// call is counted.
class Driver {
 public:
  virtual ~Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// @return nullptr if the device has no room
  [[nodiscard]] void* allocate(std::size_t bytes) {
    count_call(Call::allocate);
    return do_allocate(bytes);
  }
  void free(void* address) {
    count_call(Call::free);
    do_free(address);
  }
  [[nodiscard]] EventHandle create_event() {
    count_call(Call::create_event);
    return do_create_event();
  }
  void destroy_event(EventHandle event) {
    count_call(Call::destroy_event);
    do_destroy_event(event);
  }
  void record(EventHandle event, StreamHandle stream) {
    count_call(Call::record);
    do_record(event, stream);
  }
  void wait(StreamHandle stream, EventHandle event) {
    count_call(Call::wait);
    do_wait(stream, event);
  }
  [[nodiscard]] bool query(EventHandle event) {
    count_call(Call::query_event);
    return do_query(event);
  }
  void synchronize(StreamHandle stream) {
    count_call(Call::synchronize_stream);
    do_synchronize(stream);
  }

 protected:
  Driver() = default;

 private:
  virtual void* do_allocate(std::size_t bytes) = 0;
  virtual void do_free(void* address) = 0;
  virtual EventHandle do_create_event() = 0;
  virtual void do_destroy_event(EventHandle event) = 0;
  virtual void do_record(EventHandle event, StreamHandle stream) = 0;
  virtual void do_wait(StreamHandle stream, EventHandle event) = 0;
  virtual bool do_query(EventHandle event) = 0;
  virtual void do_synchronize(StreamHandle stream) = 0;
};

}  // namespace millrace::bench
