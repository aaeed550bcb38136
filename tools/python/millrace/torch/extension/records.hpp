// Converts Millrace's records to PyTorch's. PyTorch 2.9 to 2.15 have different fields. Each field
// is filled if it exists.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <array>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "millrace/interop/torch_memory.hpp"

namespace millrace_torch {

namespace native = c10::cuda::CUDACachingAllocator;

/// Data that a call adds to Millrace's history, and that a snapshot returns.
struct Note {
  std::shared_ptr<c10::GatheredContext> stack;
  bool in_trace = false;  // in the trace, not only in the block
  std::string compile_context;
  std::string user_metadata;
};

inline std::shared_ptr<c10::GatheredContext> stack_of(const std::shared_ptr<void>& note) {
  return note == nullptr ? nullptr : std::static_pointer_cast<Note>(note)->stack;
}

template <typename Stat>
void copy_stat(const millrace::TorchStat& from, Stat& to) {
  to.current = from.current;
  to.peak = from.peak;
  to.allocated = from.allocated;
  to.freed = from.freed;
}

// PyTorch's order is: all, small, large.
template <typename Stats>
void copy_stats(const millrace::TorchStats& from, Stats& to) {
  copy_stat(from.all, to[0]);
  copy_stat(from.small, to[1]);
  copy_stat(from.large, to[2]);
}

// A template, so that a missing field of this version is not looked up.
template <typename Stats>
Stats statistics_of(const millrace::TorchStatistics& from) {
  Stats to;
  copy_stats(from.allocation, to.allocation);
  copy_stats(from.segment, to.segment);
  copy_stats(from.active, to.active);
  copy_stats(from.inactive_split, to.inactive_split);
  copy_stats(from.allocated_bytes, to.allocated_bytes);
  copy_stats(from.reserved_bytes, to.reserved_bytes);
  copy_stats(from.active_bytes, to.active_bytes);
  copy_stats(from.inactive_split_bytes, to.inactive_split_bytes);
  copy_stats(from.requested_bytes, to.requested_bytes);
  copy_stat(from.oversize_allocations, to.oversize_allocations);
  copy_stat(from.oversize_segments, to.oversize_segments);
  to.num_alloc_retries = from.alloc_retries;
  to.num_ooms = from.out_of_memory;
  to.num_sync_all_streams = from.sync_all_streams;
  to.num_device_alloc = from.device_allocs;
  to.num_device_free = from.device_frees;
  to.max_split_size = from.max_split_size;
  if constexpr (requires { to.reserved_bytes_by_private_pools; }) {
    for (const auto& [pool, stats] : from.reserved_by_pool) {
      copy_stats(stats, to.reserved_bytes_by_private_pools[pool]);
    }
  }
  return to;
}

inline native::TraceEntry::Action action_of(millrace::TorchTraceEntry::Action action) {
  using Action = millrace::TorchTraceEntry::Action;
  using To = native::TraceEntry;
  switch (action) {
    case Action::alloc:
      return To::ALLOC;
    case Action::free_requested:
      return To::FREE_REQUESTED;
    case Action::free_completed:
      return To::FREE_COMPLETED;
    case Action::segment_alloc:
      return To::SEGMENT_ALLOC;
    case Action::segment_free:
      return To::SEGMENT_FREE;
    case Action::segment_map:
      return To::SEGMENT_MAP;
    case Action::segment_unmap:
      return To::SEGMENT_UNMAP;
    case Action::out_of_memory:
      return To::OOM;
    case Action::annotate:
      break;
  }
  return static_cast<To::Action>(To::OOM + 1);  // ANNOTATE, if the version has it
}

template <typename Entry>
Entry entry_of(const millrace::TorchTraceEntry& from, c10::DeviceIndex gpu) {
  const auto note = std::static_pointer_cast<Note>(from.context);
  const auto stack = note != nullptr && note->in_trace ? note->stack : nullptr;
  const std::string compiling = note == nullptr ? "" : note->compile_context;
  const std::string metadata = note == nullptr ? "" : note->user_metadata;
  const auto make = [&] {
    using Stream = decltype(Entry::stream_);
    const auto stream = static_cast<Stream>(from.stream);
    const auto action = action_of(from.action);
    if constexpr (std::is_constructible_v<Entry, native::TraceEntry::Action, c10::DeviceIndex,
                                          std::size_t, std::size_t, Stream, c10::MempoolId_t,
                                          c10::approx_time_t, std::shared_ptr<c10::GatheredContext>,
                                          std::string, std::string>) {
      return Entry{action,    gpu, from.address, from.bytes, stream,
                   from.pool, 0,   stack,        compiling,  metadata};
    } else {
      return Entry{action, gpu, from.address, from.bytes, stream, from.pool, 0, stack, compiling};
    }
  };
  Entry entry = make();
  entry.time_.t_ = from.time_us;
  return entry;
}

template <typename Segment>
Segment segment_of(const millrace::TorchSegment& from, c10::DeviceIndex gpu) {
  Segment to;
  to.device = gpu;
  to.address = from.address;
  to.total_size = from.bytes;
  to.requested_size = from.requested;
  to.allocated_size = from.allocated;
  to.active_size = from.allocated;
  to.stream = static_cast<decltype(to.stream)>(from.stream);
  to.is_large = !from.small;
  to.is_expandable = from.expandable;
  to.owner_private_pool_id = from.pool;
  to.context_when_allocated = stack_of(from.context);
  for (const millrace::TorchBlock& block : from.blocks) {
    auto& out = to.blocks.emplace_back();
    out.size = block.bytes;
    out.requested_size = block.requested;
    out.allocated = out.active = block.live;
    out.context_when_allocated = stack_of(block.context);
  }
  return to;
}

template <typename Config>
void describe(const millrace::TorchSettings& settings, Config& config) {
  config.garbage_collection_threshold = settings.policy.collect_threshold;
  config.max_split_size = settings.policy.max_split;
  config.expandable_segments = settings.policy.growable_ranges;
  config.last_allocator_settings = settings.text;
  const auto& divisions = settings.policy.power2_divisions;
  config.roundup_power2_divisions.assign(divisions.begin(), divisions.end());
}

}  // namespace millrace_torch
