#include "millrace/pipeline/collective/gather.hpp"

#include <cstdint>

#include "millrace/memory/buffer.hpp"

namespace millrace {
namespace {

std::vector<std::size_t> sizes_of_all(ProcessGroup& group, std::size_t size) {
  const std::vector<std::int64_t> own_sizes(group.size(), static_cast<std::int64_t>(size));
  std::vector<std::size_t> sizes;
  for (const std::int64_t other : group.exchange_sizes(RankState::ok, own_sizes).values) {
    sizes.push_back(static_cast<std::size_t>(other));
  }
  return sizes;
}

}  // namespace

std::vector<std::vector<std::byte>> gather(ProcessGroup& group, std::span<const std::byte> bytes,
                                           Allocator& memory, Stream& stream) {
  const std::vector<std::size_t> sizes = sizes_of_all(group, bytes.size());
  Device& device = memory.device().device();
  const bool root = group.rank() == 0;

  const Array<std::byte> sent{memory, bytes.size(), stream};
  if (!bytes.empty()) {
    device.copy(sent.data(), bytes.data(), bytes.size(), CopyKind::host_to_device, stream.handle());
  }
  std::vector<SentBytes> sends(group.size());
  std::vector<ReceivedBytes> receives(group.size());
  std::vector<Array<std::byte>> room;
  sends[0] = {sent.data(), bytes.size()};
  for (unsigned rank = 0; root && rank < group.size(); ++rank) {
    room.emplace_back(memory, sizes[rank], stream);
    receives[rank] = {room.back().data(), sizes[rank]};
  }
  group.all_to_all(sends, receives, stream);

  std::vector<std::vector<std::byte>> all(room.size());
  for (std::size_t rank = 0; rank < room.size(); ++rank) {
    all[rank].resize(sizes[rank]);
    if (sizes[rank] == 0) continue;
    device.copy(all[rank].data(), room[rank].data(), sizes[rank], CopyKind::device_to_host,
                stream.handle());
  }
  stream.synchronize();
  // An operation of a group that has failed ends without its data; the bytes copied here are then
  // invalid.
  group.check();
  return all;
}

}  // namespace millrace
