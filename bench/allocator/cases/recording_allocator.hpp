#pragma once

#include <cstdint>
#include <unordered_map>

#include "allocator/cases/script.hpp"
#include "millrace/memory/forwarding_allocator.hpp"

namespace millrace::bench {

/// Records the calls of a program to its allocator, and the program's own records and waits on the
/// device. Records and waits of the allocator are left out.
class RecordingAllocator final : public ForwardingAllocator, private DeviceObserver {
 public:
  explicit RecordingAllocator(Allocator& inner);
  ~RecordingAllocator() override;

  void end_step();
  [[nodiscard]] const Script& script() const noexcept { return script_; }

  using ForwardingAllocator::allocate;
  void* allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag = {}) override;
  void deallocate(void* address) override;
  /// @throws std::logic_error, because a script has no such free
  void deallocate(void* address, StreamRef stream) override;
  /// @throws std::logic_error, because a script has no such free
  void deallocate(void* address, Point marker) override;
  void record_use(void* address, StreamRef stream) override;
  /// @throws std::logic_error, because a script has no transfer
  void transfer(void* address, StreamRef owner) override;

 private:
  void recorded(EventHandle event, StreamHandle stream) override;
  void waited(StreamHandle stream, EventHandle event) override;

  std::uint32_t stream_number(StreamHandle stream);
  void add(ScriptStep::Kind kind, std::uint32_t stream, std::uint32_t block,
           std::uint64_t bytes = 0) {
    script_.steps.push_back({kind, stream, block, bytes});
  }

  Script script_;
  bool inside_ = false;  // a call of the allocator is running
  std::unordered_map<void*, std::uint32_t> streams_, blocks_, events_;
};

}  // namespace millrace::bench
