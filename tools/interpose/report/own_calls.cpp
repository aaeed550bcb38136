#include "report/own_calls.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "millrace/device/virtual_machine.hpp"

namespace millrace::interpose {
namespace {

/** The program's calls, made once more on a modelled GPU without data. */
class Again {
 public:
  Again(const Gpu& gpu, VirtualMachine::Schedule schedule)
      : ledger_(gpu.order().ledger()),
        machine_({.schedule = schedule, .seed = 1}),
        device_(machine_.add_device({.memory_bytes = gpu.memory_bytes(), .data = false})) {}

  std::size_t peak(const std::vector<LogEntry>& entries) {
    const std::size_t before = used();
    for (const LogEntry& entry : entries) {
      apply(entry);
      peak_ = std::max(peak_, used());
    }
    return peak_ - std::min(before, peak_);
  }

 private:
  [[nodiscard]] std::size_t used() {
    const MemoryInfo info = device_.memory_info();
    return info.total - info.free;
  }

  StreamHandle stream(StreamId id) {
    const StreamTraits traits = ledger_.traits(id);
    if (traits.legacy) return device_.legacy_stream();
    const auto [it, is_new] = streams_.try_emplace({id.slot, id.generation});
    if (is_new) it->second = device_.create_stream({.blocking = traits.blocking});
    return it->second;
  }

  EventHandle* event(Point marker) {
    const auto it = events_.find(key(marker));
    return it == events_.end() ? nullptr : &it->second;
  }

  using Key = std::pair<std::pair<std::uint32_t, std::uint32_t>, Marker>;
  static Key key(Point marker) {
    return {{marker.stream.slot, marker.stream.generation}, marker.marker};
  }

  void apply(const LogEntry& entry) {
    switch (entry.did) {
      case Did::allocated:
        blocks_[entry.address] = {device_.allocate_async(entry.bytes, stream(entry.stream)), true};
        break;
      case Did::allocated_for_all:
        blocks_[entry.address] = {device_.allocate(entry.bytes), false};
        break;
      case Did::freed:
      case Did::freed_completed:
        free(entry);
        break;
      case Did::recorded: {
        const EventHandle made = device_.create_event();
        device_.record(made, stream(entry.marker.stream));
        events_[key(entry.marker)] = made;
        break;
      }
      case Did::waited:
        if (const EventHandle* const known = event(entry.marker))
          device_.wait(stream(entry.stream), *known);
        break;
      case Did::passed:
        if (const EventHandle* const known = event(entry.marker)) device_.synchronize(*known);
        break;
      case Did::passed_stream:
        device_.synchronize(stream(entry.stream));
        break;
      case Did::passed_device:
        device_.synchronize();
        break;
    }
  }

  void free(const LogEntry& entry) {
    const auto it = blocks_.find(entry.address);
    if (it == blocks_.end()) return;
    const Block block = it->second;
    blocks_.erase(it);
    if (!block.of_pool) {
      device_.synchronize();
      device_.free(block.address);
    } else if (entry.did == Did::freed_completed) {
      device_.synchronize();
      device_.free_async(block.address, device_.legacy_stream());
    } else {
      device_.free_async(block.address, stream(entry.stream));
    }
  }

  struct Block {
    void* address = nullptr;
    bool of_pool = false;
  };

  const Ledger& ledger_;
  VirtualMachine machine_;
  VirtualDevice& device_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, StreamHandle> streams_;
  std::map<Key, EventHandle> events_;
  std::unordered_map<std::uintptr_t, Block> blocks_;
  std::size_t peak_ = 0;
};

}  // namespace

OwnCalls model_own_calls(const Gpu& gpu) {
  const std::vector<LogEntry> entries = gpu.log().entries();
  OwnCalls own;
  own.left_out = gpu.log().left_out();
  own.least = Again{gpu, VirtualMachine::Schedule::timed}.peak(entries);
  own.most = Again{gpu, VirtualMachine::Schedule::adversarial}.peak(entries);
  return own;
}

}  // namespace millrace::interpose
