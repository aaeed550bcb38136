// Serves usual requests and frees from a stream's front, without the allocator's lock.

#include <optional>
#include <span>
#include <utility>

#include "memory/caching/quick_path_inline.hpp"
#include "memory/caching_state.hpp"
#include "memory/contract.hpp"

namespace millrace {
namespace {

constexpr std::size_t kMostQuick = std::size_t{1} << 60;  // largest request that can be rounded

}  // namespace

void* CachingAllocator::allocate(std::size_t bytes, StreamRef owner, StreamRef first_user,
                                 Tag tag) {
  if (bytes == 0) return nullptr;
  State& state = *state_;
  const bool same = owner.handle() == first_user.handle() && owner.id() == first_user.id();
  owner = state.stock.resolve(owner);
  first_user = same ? owner : state.stock.resolve(first_user);
  PlainRequest request{bytes, bytes, owner, tag, 0};
  request.next = state.stock.open_streams.next(owner.id());
  if (request.next == 0) [[unlikely]]
    refuse_stream("allocate", state.stock.device, owner);
  bool ask_front = false;
  if (first_user.id() == owner.id() && state.stock.has_fronts && bytes <= kMostQuick) {
    request.bytes = state.stock.round(bytes);
    const QuickPath::Answer quick = state.quick.take(request, request.bytes);
    if (quick.block != nullptr) return quick.block->address;
    ask_front = quick.ask;
  }
  return state.serve_elsewhere(bytes, owner, first_user, tag, request.next, ask_front);
}

std::size_t QuickPath::take(std::span<const std::size_t> sizes, PlainRequest request,
                            std::vector<Block*>& blocks) {
  Stock& stock = stock_;
  const StreamId lane = request.owner.id();
  Front* const front = stock.fronts.find(lane);
  const auto nonzero = std::ranges::find_if(sizes, [](std::size_t each) { return each != 0; });
  if (nonzero == sizes.end()) return sizes.size();
  const std::size_t first = *nonzero;
  if (front == nullptr || first > kMostQuick) return 0;
  if (stock.device.capturing() && stock.device.captured(lane)) return 0;
  const Point passed = passed_wait(stock, *front, lane, stock.round(first));
  if (!passed.stream.valid() && !front->quick.may_have(stock.round(first))) return 0;
  Turns::Turn turn{stock.turns, *front};
  if (front->stream() != lane || stock.is_shut()) return 0;
  if (passed.stream.valid()) front->quick.settle(passed, front->demand.live.peak);
  std::size_t served = 0;
  for (; served < sizes.size(); ++served) {
    const std::size_t bytes = sizes[served];
    if (bytes == 0) continue;
    if (bytes > kMostQuick) break;
    request.requested = bytes;
    request.bytes = stock.round(bytes);
    if (!turn.has_room(request.bytes, request.tag)) break;
    Block* const block = pop(stock, turn, *front, request, request.bytes);
    if (block == nullptr) break;
    blocks.push_back(block);
  }
  return served;
}

// Like `take`, under the allocator's lock.
Block* QuickPath::take_alone(const Request& request) {
  Stock& stock = stock_;
  Front* const front = upkeep_.of(request.lane);
  if (front == nullptr) return nullptr;
  const Point passed = passed_wait(stock, *front, request.lane, request.bytes);
  Block* block = nullptr;
  {
    const auto hold = stock.turns.hold(*front);
    stock.turns.add(*front);
    if (passed.stream.valid()) front->quick.settle(passed, front->demand.live.peak);
    block = front->quick.pop(request.bytes, front->demand.live.peak);
    if (block == nullptr) return nullptr;
    give_again(stock, *front, block, request, stock.new_id());
  }
  ++stock.meter.counts().served_own;
  stock.meter.allocated(request.requested, block->bytes, request.lane, block->tag);
  return block;
}

void CachingAllocator::deallocate(void* address) {
  if (address == nullptr) return;
  State& state = *state_;
  const Kept kept = state.stock.has_fronts ? state.quick.keep(address, nullptr) : Kept::no;
  if (kept != Kept::yes) state.deallocate(address, nullptr, kept);
}

void CachingAllocator::deallocate(void* address, StreamRef stream) {
  if (address == nullptr) return;
  State& state = *state_;
  stream = state.stock.resolve(stream);
  const Kept kept = state.stock.has_fronts ? state.quick.keep(address, &stream) : Kept::no;
  if (kept != Kept::yes) state.deallocate(address, &stream, kept);
}

void QuickPath::keep(std::span<Block*> blocks, const StreamRef* stream) {
  Stock& stock = stock_;
  std::optional<Turns::Turn> turn;
  Front* front = nullptr;
  Point point;
  for (Block*& block : blocks) {
    const StreamId owner = block->live.owner.id();
    const StreamId id = stream == nullptr ? owner : stream->id();
    if (owner != id) continue;
    if (point.stream != id) {
      turn.reset();
      point = {id, stock.open_streams.next(id)};
      front = point.marker == 0 ? nullptr : stock.fronts.find(id);
      if (front != nullptr) turn.emplace(stock.turns, *front);
    }
    if (!turn || stock.is_shut()) continue;
    const QuickBins::Size size = block->rounded();
    if (!keepable(stock, *front, *block, id, size)) continue;
    if (!turn->has_room(block->bytes, block->tag)) continue;
    turn->free(block->live.requested, *block);
    push(stock, *front, block, size, point);
    block = nullptr;
  }
}

// Claims the blocks at all addresses if each is live and only `owner` has used it; otherwise none.
// Called in the turn of the owner's front.
bool QuickPath::claim_plain(std::span<void* const> addresses, StreamId owner,
                            std::vector<Block*>& claimed) {
  Stock& stock = stock_;
  for (void* const address : addresses) {
    if (address == nullptr) continue;
    Block* const block = stock.heap.live().find(address);
    const bool is_plain = block != nullptr && block->state == BlockState::live &&
                          block->lane == owner && block->live.owner.id() == owner &&
                          block->live.uses.by_owner_only();
    if (!is_plain) {
      for (Block* const other : claimed) other->state = BlockState::live;
      claimed.clear();
      return false;
    }
    block->state = BlockState::claimed;
    claimed.push_back(block);
  }
  return true;
}

// As in `keep`, only atomic fields are read before the turn.
std::optional<std::vector<Block*>> QuickPath::keep_batch(std::span<void* const> addresses,
                                                         const StreamRef* stream) {
  Stock& stock = stock_;
  constexpr std::size_t kMostInTurn = 256;  // other threads may wait for the turn to end
  if (addresses.size() > kMostInTurn) return {};
  const auto first = std::ranges::find_if(addresses, [](void* each) { return each != nullptr; });
  std::vector<Block*> left;
  if (first == addresses.end()) return left;
  const Block* const one = stock.heap.live().find(*first);
  if (one == nullptr || one->state != BlockState::live) return {};
  const StreamId id = one->lane;
  if (stream != nullptr && stream->id() != id) return {};
  Front* const front = stock.fronts.find(id);
  const Point point{id, front == nullptr ? 0 : stock.open_streams.next(id)};
  if (point.marker == 0) return {};
  left.reserve(addresses.size());
  {
    Turns::Turn turn{stock.turns, *front};
    if (front->stream() != id || stock.is_shut()) return {};
    if (!claim_plain(addresses, id, left)) return {};
    std::erase_if(left, [&](Block* block) {
      const QuickBins::Size size = block->rounded();
      if (!keepable(stock, *front, *block, id, size) || !turn.has_room(block->bytes, block->tag))
        return false;
      turn.free(block->live.requested, *block);
      push(stock, *front, block, size, point);
      return true;
    });
  }
  return left;
}

// Like `keep`, under the allocator's lock, for a claimed block.
bool QuickPath::keep_alone(Block* block, StreamRef stream) {
  Stock& stock = stock_;
  const StreamId id = stream.id();
  Front* const front = stock.fronts.find(id);
  if (front == nullptr) return false;
  const Point point{id, stock.open_streams.next(id)};
  if (point.marker == 0) return false;
  const WhileLive was = block->live;
  {
    const auto hold = stock.turns.hold(*front);
    const QuickBins::Size size = block->rounded();
    if (!keepable(stock, *front, *block, id, size)) return false;
    stock.turns.add(*front);
    // Counted before `push`: afterwards another request may take the block at once.
    stock.meter.freed(was.requested, block->bytes, id, block->tag);
    push(stock, *front, block, size, point);
  }
  reports_.freed(was, *block, {&point, 1});
  return true;
}

}  // namespace millrace
