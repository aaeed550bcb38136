// Finds and claims live blocks by address, and keeps their recorded uses.

#include "memory/caching/allocations.hpp"

#include <utility>

#include "memory/contract.hpp"

namespace millrace {

Block* Allocations::find(const char* call, const void* address) const {
  Block* const block = stock_.heap.live().find(address);
  const bool live = block != nullptr && block->state == BlockState::live;
  if (!live || (graphs_.any() && graphs_.hides(address))) refuse_address(call, address);
  return block;
}

Block* Allocations::claim(const char* call, void* address) {
  Block* const block = find(call, address);
  const auto hold = upkeep_.hold(*block);
  if (block->state != BlockState::live) refuse_address(call, address);
  block->state = BlockState::claimed;
  return block;
}

std::vector<Block*> Allocations::claim(std::span<void* const> addresses) {
  std::vector<Block*> blocks;
  blocks.reserve(addresses.size());
  try {
    for (void* const address : addresses) {
      if (address == nullptr) continue;
      blocks.push_back(claim("deallocate", address));
    }
  } catch (...) {
    for (Block* const block : blocks) block->state = BlockState::live;
    throw;
  }
  return blocks;
}

UseRecord& Allocations::use_record_of(Block& block) {
  // Host memory is allocated without the front's spin lock. The loop then checks again, because
  // another thread may have added a record meanwhile.
  UseRecord* made = nullptr;
  for (;;) {
    {
      const auto hold = upkeep_.hold(block);
      LiveUses& uses = block.live.uses;
      if (uses.by_owner_only() && made == nullptr && hold.owns_lock()) {
        made = stock_.fronts.find(block.lane)->take_use_record();
      }
      if (uses.by_owner_only() && made != nullptr) {
        made->begin(block.live.owner.id(), block.first_markers());
        uses = LiveUses{*std::exchange(made, nullptr)};
      }
      if (!uses.by_owner_only()) break;
    }
    made = stock_.heap.make_use_record();
  }
  if (made != nullptr) stock_.heap.forget(made);  // another thread added a record first
  return *block.live.uses.record();
}

bool Allocations::add_use(Block& block, StreamRef stream) {
  if (stream.id() == block.live.owner.id()) return false;
  StreamUses& uses = use_record_of(block).uses;
  const auto hold = upkeep_.hold(block);
  return uses.add(stream);
}

void Allocations::transfer(Block& block, StreamRef new_owner) {
  const StreamRef owner = block.live.owner;
  if (owner.id() == new_owner.id()) return;
  StreamUses& uses = use_record_of(block).uses;
  {
    const auto hold = upkeep_.hold(block);
    uses.remove(new_owner.id());
    uses.add(owner);
    block.live.owner = new_owner;
  }
  // The meter moves the bytes between the streams, so it must first count what their fronts did.
  upkeep_.add_tally(owner.id());
  upkeep_.add_tally(new_owner.id());
  stock_.turns.current().moved(block.bytes, owner.id(), new_owner.id());
}

}  // namespace millrace
