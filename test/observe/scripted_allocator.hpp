#pragma once

#include <map>
#include <stdexcept>

#include "millrace/memory/allocator.hpp"

namespace millrace::test {

/** @brief Reports the statistics that a test sets. Cannot allocate. */
class ScriptedAllocator final : public Allocator {
 public:
  MemoryStatistics scripted;
  UsableBytes scripted_usable;
  std::map<std::uint64_t, MemoryGauges> open_scopes;

  using Allocator::allocate;
  void* allocate(std::size_t, StreamRef, StreamRef, Tag) override { refuse(); }
  void deallocate(void*) override { refuse(); }
  void deallocate(void*, StreamRef) override { refuse(); }
  void deallocate(void*, Point) override { refuse(); }
  void record_use(void*, StreamRef) override { refuse(); }
  void transfer(void*, StreamRef) override { refuse(); }
  std::size_t trim(std::size_t) override { return 0; }
  Tag tag(std::string_view) override { return {}; }
  MemoryStatistics statistics() override { return scripted; }
  UsableBytes usable(StreamRef) override { return scripted_usable; }
  ScopeId open_scope() override {
    open_scopes[++last_scope_] = scripted.bytes;
    return {last_scope_};
  }
  MemoryGauges peaks(ScopeId scope) override { return open_scopes.at(scope.value); }
  void close_scope(ScopeId scope) override { open_scopes.erase(scope.value); }
  void observe(AllocationObserver*) override {}
  OrderedDevice& device() const noexcept override { std::terminate(); }

 private:
  [[noreturn]] static void refuse() {
    throw std::logic_error{"a scripted allocator has no memory"};
  }

  std::uint64_t last_scope_ = 0;
};

}  // namespace millrace::test
