#include "data/ring_copy.hpp"

#include <algorithm>
#include <stdexcept>

#include "millrace/round_up.hpp"

namespace millrace {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) { return round_up(bytes, kAlignment); }

// 30% more than the largest batch so far: batches of varying size then rarely need a new slot.
std::size_t with_headroom(std::size_t bytes) { return aligned(bytes + bytes * 3 / 10); }

}  // namespace

RingCopy::~RingCopy() {
  for (Slot& slot : slots_) {
    for (const Reader& reader : slot.readers) slot.memory.record_use(reader.stream);
  }
}

std::size_t RingCopy::next_free() {
  for (std::size_t tried = 0; tried < slots_.size(); ++tried) {
    last_ = (last_ + 1) % slots_.size();
    if (!slots_[last_].held) return last_;
  }
  throw std::logic_error{"more batches are held at once than the ring has slots"};
}

// A slot that fits is overwritten in place, so the copy waits for its readers. A slot that is too
// small is freed, and the copy waits for nothing: the allocator keeps the memory for the readers.
void RingCopy::make_room(Slot& slot, std::size_t bytes) {
  const bool fits = bytes <= slot.memory.size();
  for (const Reader& reader : slot.readers) {
    if (!fits) {
      slot.memory.record_use(reader.stream);
    } else if (reader.last_read.recorded()) {
      environment_.copy.wait(reader.last_read);
    } else {
      environment_.copy.wait_stream(reader.stream);
    }
  }
  slot.readers.clear();
  if (fits) return;
  slot.memory.reset();
  slot.memory =
      Buffer{environment_.allocator, with_headroom(bytes), environment_.copy, environment_.tag};
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
  std::vector<Reader>& readers = slots_[batch.slot].readers;
  const auto same = [&](const Reader& other) { return other.stream.id() == user.id(); };
  if (std::none_of(readers.begin(), readers.end(), same)) readers.push_back({user, {}});
}

void RingCopy::give_back(const Parts& batch) {
  Slot& slot = slots_[batch.slot];
  slot.held = false;
  for (Reader& reader : slot.readers) {
    try {
      environment_.copy.device().record(reader.last_read, reader.stream);
    } catch (const DeviceError&) {  // make_room then waits for all work of the stream
    }
  }
}

}  // namespace millrace
