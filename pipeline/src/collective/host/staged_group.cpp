#include "collective/host/staged_group.hpp"

#include <algorithm>
#include <vector>

namespace millrace::collective {
namespace {

/** Returns the first element of chunk `part`, if `count` elements are divided into `parts`. */
std::size_t chunk_begin(std::size_t count, std::size_t part, std::size_t parts) {
  return count / parts * part + std::min(part, count % parts);
}

template <typename Memory>
std::size_t bytes_of(std::span<const Memory> blocks) {
  std::size_t sum = 0;
  for (const Memory& block : blocks) sum += block.bytes;
  return sum;
}

/** Divides `memory` into consecutive pieces of these sizes. */
template <typename Span, typename Memory>
std::vector<Span> pieces(std::span<std::byte> memory, std::span<const Memory> sizes) {
  std::vector<Span> cut;
  std::size_t at = 0;
  for (const Memory& size : sizes) {
    cut.push_back(memory.subspan(at, size.bytes));
    at += size.bytes;
  }
  return cut;
}

std::span<float> floats(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace

Staging::~Staging() {
  try {
    if (!memory_.empty()) device_.free_host(memory_.data());
  } catch (...) {  // the device or its machine is gone, and the memory with it
  }
}

std::span<std::byte> Staging::room(std::size_t bytes) {
  if (bytes > memory_.size()) {
    if (!memory_.empty()) device_.free_host(std::exchange(memory_, {}).data());
    // More than requested, because pinned memory is slow to allocate and batches differ in size.
    const std::size_t more = bytes + bytes / 4;
    memory_ = {static_cast<std::byte*>(device_.allocate_host(more)), more};
  }
  return memory_.first(bytes);
}

StagedGroup::StagedGroup(unsigned rank, unsigned size, std::unique_ptr<Transport> transport,
                         OrderedDevice& device, std::string_view name)
    : HostedGroup(rank, size, std::move(transport)),
      device_(device),
      name_(name),
      sent_(device.device()),
      received_(device.device()) {}

StagedGroup::~StagedGroup() {
  try {
    device_.synchronize(copied_back_);
  } catch (...) {  // the copies have failed, so nothing reads the memory
  }
}

// After a failure a peer may still use this rank's pinned memory, so it is never freed.
template <typename Exchange>
void StagedGroup::staged(StreamRef stream, Exchange exchange) {
  check();
  // The copies of the previous operation still read the pinned memory that this one fills.
  device_.synchronize(copied_back_);
  try {
    exchange();
  } catch (...) {
    sent_.keep();
    received_.keep();
    throw;
  }
  device_.record(copied_back_, stream);
}

void StagedGroup::do_all_to_all(std::span<const SentBytes> sends,
                                std::span<const ReceivedBytes> receives, StreamRef stream) {
  staged(stream, [&] {
    Device& device = device_.device();
    const Blocks blocks{pieces<std::span<const std::byte>>(sent_.room(bytes_of(sends)), sends),
                        pieces<std::span<std::byte>>(received_.room(bytes_of(receives)), receives)};
    for (unsigned to = 0; to < size(); ++to) {
      device.copy(const_cast<std::byte*>(blocks.sends[to].data()), sends[to].data, sends[to].bytes,
                  CopyKind::device_to_host, stream.handle());
    }
    device_.synchronize(stream);
    transport().exchange("all-to-all", blocks);
    for (unsigned from = 0; from < size(); ++from) {
      device.copy(receives[from].data, blocks.receives[from].data(), receives[from].bytes,
                  CopyKind::host_to_device, stream.handle());
    }
  });
}

// Each rank sums one chunk of the array and sends the sum to all ranks.
void StagedGroup::do_all_reduce_sum(float* data, std::size_t count, StreamRef stream) {
  if (count == 0) return;
  staged(stream, [&] {
    Device& device = device_.device();
    const std::size_t bytes = count * sizeof(float);
    const std::span<std::byte> mine = sent_.room(bytes);
    device.copy(mine.data(), data, bytes, CopyKind::device_to_host, stream.handle());
    device_.synchronize(stream);

    const std::size_t first = chunk_begin(count, rank(), size());
    const std::size_t chunk = chunk_begin(count, rank() + 1, size()) - first;
    const std::span<std::byte> others = received_.room(chunk * sizeof(float) * size());
    Blocks scattered, gathered;
    for (unsigned peer = 0; peer < size(); ++peer) {
      const std::size_t begin = chunk_begin(count, peer, size());
      const auto theirs = mine.subspan(
          begin * sizeof(float), (chunk_begin(count, peer + 1, size()) - begin) * sizeof(float));
      scattered.sends.emplace_back(theirs);
      scattered.receives.push_back(
          others.subspan(peer * chunk * sizeof(float), chunk * sizeof(float)));
      gathered.receives.push_back(theirs);
    }
    transport().exchange("all-reduce", scattered);
    // Adds in the order of the ranks, not in the order of arrival: sums have the same bits on each
    // run.
    const std::span<float> sum = floats(scattered.receives[0]);
    for (unsigned peer = 1; peer < size(); ++peer) {
      const std::span<float> more = floats(scattered.receives[peer]);
      for (std::size_t i = 0; i < chunk; ++i) sum[i] += more[i];
    }
    gathered.sends.assign(size(), scattered.receives[0]);
    transport().exchange("all-reduce", gathered);
    device.copy(data, mine.data(), bytes, CopyKind::host_to_device, stream.handle());
  });
}

void StagedGroup::do_broadcast(void* data, std::size_t bytes, unsigned root, StreamRef stream) {
  if (bytes == 0) return;
  staged(stream, [&] {
    Device& device = device_.device();
    const std::span<std::byte> memory = received_.room(bytes);
    if (rank() == root) {
      device.copy(memory.data(), data, bytes, CopyKind::device_to_host, stream.handle());
    }
    device_.synchronize(stream);
    Blocks blocks;
    for (unsigned peer = 0; peer < size(); ++peer) {
      const bool other = peer != rank();
      const bool sends = rank() == root && other, receives = peer == root && other;
      blocks.sends.emplace_back(sends ? memory : std::span<std::byte>{});
      blocks.receives.push_back(receives ? memory : std::span<std::byte>{});
    }
    transport().exchange("broadcast", blocks);
    if (rank() != root) {
      device.copy(data, memory.data(), bytes, CopyKind::host_to_device, stream.handle());
    }
  });
}

}  // namespace millrace::collective
