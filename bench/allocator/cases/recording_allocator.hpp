#pragma once

#include <cstdint>
#include <unordered_map>

#include "allocator/cases/script.hpp"
#include "millrace/memory/allocator.hpp"

namespace millrace::bench {

/// Writes down what a program asks of an allocator, and the records and waits that the program
/// itself makes on the device. What the allocator makes there is not the program's.
class RecordingAllocator final : public Allocator, private DeviceObserver {
 public:
  explicit RecordingAllocator(Allocator& inner);
  ~RecordingAllocator() override;

  void end_step();
  [[nodiscard]] const Script& script() const noexcept { return script_; }

  using Allocator::allocate;
  void* allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag = {}) override;
  void deallocate(void* address) override;
  /// @throws std::logic_error: a script has no such free
  void deallocate(void* address, StreamRef stream) override;
  /// @throws std::logic_error: a script has no such free
  void deallocate(void* address, Point marker) override;
  void record_use(void* address, StreamRef stream) override;
  /// @throws std::logic_error: a script has no transfer
  void transfer(void* address, StreamRef owner) override;
  std::size_t trim(std::size_t keep_bytes = 0) override { return inner_.trim(keep_bytes); }
  Tag tag(std::string_view name) override { return inner_.tag(name); }
  MemoryStatistics statistics() override { return inner_.statistics(); }
  UsableBytes usable(StreamRef stream) override { return inner_.usable(stream); }
  ScopeId open_scope() override { return inner_.open_scope(); }
  MemoryGauges peaks(ScopeId scope) override { return inner_.peaks(scope); }
  void close_scope(ScopeId scope) override { inner_.close_scope(scope); }
  void observe(AllocationObserver* observer) override { inner_.observe(observer); }
  OrderedDevice& device() const noexcept override { return inner_.device(); }

 private:
  void recorded(EventHandle event, StreamHandle stream) override;
  void waited(StreamHandle stream, EventHandle event) override;

  std::uint32_t stream_number(StreamHandle stream);
  void add(ScriptStep::Kind kind, std::uint32_t stream, std::uint32_t block,
           std::uint64_t bytes = 0) {
    script_.steps.push_back({kind, stream, block, bytes});
  }

  Allocator& inner_;
  Script script_;
  bool inside_ = false;  // a call of the allocator
  std::unordered_map<void*, std::uint32_t> streams_, blocks_, events_;
};

}  // namespace millrace::bench
