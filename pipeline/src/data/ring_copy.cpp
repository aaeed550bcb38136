#include "data/ring_copy.hpp"

#include <algorithm>
#include <stdexcept>

namespace millrace {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t with_headroom(std::size_t bytes) { return aligned(bytes + bytes * 3 / 10); }

}  // namespace

RingCopy::~RingCopy() {
  for (Slot& slot : slots_) {
    for (const StreamRef user : slot.users) slot.memory.record_use(user);
  }
}

std::size_t RingCopy::next_free() {
  for (std::size_t tried = 0; tried < slots_.size(); ++tried) {
    last_ = (last_ + 1) % slots_.size();
    if (!slots_[last_].held) return last_;
  }
  throw std::logic_error{"more batches are held at once than the ring has slots"};
}

void RingCopy::make_room(Slot& slot, std::size_t bytes) {
  const bool fits = bytes <= slot.memory.size();
  if (fits) {
    for (const Event& read : slot.last_reads) setting_.copy.wait(read);
  } else {
    for (const StreamRef user : slot.users) slot.memory.record_use(user);
    slot.memory.reset();
  }
  slot.users.clear();
  slot.last_reads.clear();
  if (!fits)
    slot.memory = Buffer{setting_.allocator, with_headroom(bytes), setting_.copy, setting_.tag};
}

void RingCopy::place(std::span<const HostTensor> sources, const Parts& batch) {
  std::size_t bytes = 0;
  for (const HostTensor& source : sources) bytes += aligned(source.bytes);

  batch.slot = next_free();
  Slot& slot = slots_[batch.slot];
  make_room(slot, bytes);
  slot.held = true;

  auto* room = static_cast<std::byte*>(slot.memory.data());
  for (const HostTensor& source : sources) {
    batch.tensors.push_back({source.bytes == 0 ? nullptr : room, source.bytes});
    room += aligned(source.bytes);
  }
}

void RingCopy::use(const Parts& batch, StreamRef user) {
  std::vector<StreamRef>& users = slots_[batch.slot].users;
  const auto same = [&](StreamRef other) { return other.id() == user.id(); };
  if (std::none_of(users.begin(), users.end(), same)) users.push_back(user);
}

void RingCopy::give_back(const Parts& batch) {
  Slot& slot = slots_[batch.slot];
  for (const StreamRef user : slot.users) {
    setting_.copy.device().record(slot.last_reads.emplace_back(), user);
  }
  slot.held = false;
}

}  // namespace millrace
