#include "test/support/torch_model.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace millrace::test {

using trace::BlockState;
using trace::TorchAction;

namespace {
constexpr std::uint64_t kMiB = 1 << 20;
}

TorchModel::TorchModel(trace::TorchSettings settings, Driver driver,
                       const std::vector<Segment>& start)
    : settings_{std::move(settings)}, driver_{std::move(driver)} {
  for (const Segment& segment : start) {
    Segment empty = segment;
    empty.blocks.clear();
    segments_[segment.address] = empty;
    for (const Block& block : segment.blocks) {
      const Piece piece{block, segment.address};
      pieces_[block.address] = piece;
      if (block.state == BlockState::inactive) free_.insert(key(piece));
    }
  }
}

std::uint64_t TorchModel::rounded(std::uint64_t requested) const {
  if (requested < 512) return 512;
  int range = 0;
  while (range < 15 && requested >= (2 * kMiB << range)) ++range;
  const std::uint64_t steps = settings_.roundup_power2_divisions[static_cast<std::size_t>(range)];
  std::uint64_t unit = 512;
  if (steps > 1 && requested > 512 * steps) unit = std::bit_floor(requested) / steps;
  return requested % unit == 0 ? requested : requested + unit - requested % unit;
}

TorchModel::FreeKey TorchModel::key(const Piece& piece) const {
  const Segment& segment = segments_.at(piece.segment);
  return {segment.large, static_cast<std::uint64_t>(segment.stream), piece.block.bytes,
          piece.block.address};
}

bool TorchModel::splits(const Piece& piece, std::uint64_t bytes) const {
  const std::uint64_t rest = piece.block.bytes - bytes;
  if (!segments_.at(piece.segment).large) return rest >= 512;
  return bytes < settings_.max_split_size && rest > kMiB;
}

TorchModel::Pieces::iterator TorchModel::best_fit(std::uint64_t bytes, std::int64_t stream) {
  const bool large = bytes > kMiB;
  const auto handle = static_cast<std::uint64_t>(stream);
  const auto found = free_.lower_bound({large, handle, bytes, 0});
  if (found == free_.end() || std::get<0>(*found) != large || std::get<1>(*found) != handle) {
    return pieces_.end();
  }
  const std::uint64_t size = std::get<2>(*found);
  // A block of `max_split_size` or more serves only requests of that size, with a limited rest.
  const bool oversize = bytes >= settings_.max_split_size;
  if (!oversize && size >= settings_.max_split_size) return pieces_.end();
  if (oversize && size >= bytes + settings_.max_non_split_rounding) return pieces_.end();
  const auto piece = pieces_.find(std::get<3>(*found));
  free_.erase(found);
  return piece;
}

TorchModel::Pieces::iterator TorchModel::new_segment(std::uint64_t bytes, std::int64_t stream) {
  std::uint64_t size = (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
  if (bytes < 10 * kMiB) size = settings_.large_segment_size;
  if (bytes <= kMiB) size = 2 * kMiB;
  const std::uint64_t address = driver_(size);
  Segment segment;
  segment.address = address;
  segment.bytes = size;
  segment.stream = stream;
  segment.large = bytes > kMiB;
  segments_[address] = segment;
  record(TorchAction::segment_alloc, address, size, stream);
  return pieces_.insert({address, {{address, size, 0, BlockState::inactive}, address}}).first;
}

std::uint64_t TorchModel::allocate(std::uint64_t requested, std::int64_t stream) {
  const std::uint64_t bytes = rounded(requested);
  auto piece = best_fit(bytes, stream);
  if (piece == pieces_.end()) piece = new_segment(bytes, stream);
  Block& block = piece->second.block;
  if (splits(piece->second, bytes)) {
    const Piece rest{{block.address + bytes, block.bytes - bytes, 0, BlockState::inactive},
                     piece->second.segment};
    block.bytes = bytes;
    pieces_[rest.block.address] = rest;
    free_.insert(key(rest));
  }
  block.state = BlockState::allocated;
  block.requested = requested;
  record(TorchAction::alloc, block.address, requested, stream);
  return block.address;
}

void TorchModel::request_free(std::uint64_t address) {
  auto& [block, segment] = pieces_.at(address);
  if (block.state != BlockState::allocated) throw std::logic_error{"freed, but not in use"};
  block.state = BlockState::pending_free;
  record(TorchAction::free_requested, address, block.requested, segments_.at(segment).stream);
}

bool TorchModel::free_in_same_segment(Pieces::iterator a, Pieces::iterator b) const {
  return a->second.segment == b->second.segment && a->second.block.state == BlockState::inactive &&
         b->second.block.state == BlockState::inactive;
}

void TorchModel::complete_free(std::uint64_t address) {
  auto piece = pieces_.find(address);
  if (piece == pieces_.end() || piece->second.block.state != BlockState::pending_free) {
    throw std::logic_error{"completed, but not pending"};
  }
  record(TorchAction::free_completed, address, piece->second.block.requested,
         segments_.at(piece->second.segment).stream);
  piece->second.block.state = BlockState::inactive;
  piece->second.block.requested = 0;
  if (const auto next = std::next(piece);
      next != pieces_.end() && free_in_same_segment(piece, next)) {
    free_.erase(key(next->second));
    piece->second.block.bytes += next->second.block.bytes;
    pieces_.erase(next);
  }
  if (piece != pieces_.begin() && free_in_same_segment(std::prev(piece), piece)) {
    const auto before = std::prev(piece);
    free_.erase(key(before->second));
    before->second.block.bytes += piece->second.block.bytes;
    pieces_.erase(piece);
    piece = before;
  }
  free_.insert(key(piece->second));
}

void TorchModel::release_cached() {
  std::vector<std::uint64_t> whole;
  for (const auto& [address, segment] : segments_) {
    const Block& block = pieces_.at(address).block;
    if (block.state == BlockState::inactive && block.bytes == segment.bytes)
      whole.push_back(address);
  }
  for (const std::uint64_t address : whole) release(address);
}

void TorchModel::release(std::uint64_t address) {
  const Piece& piece = pieces_.at(address);
  record(TorchAction::segment_free, address, piece.block.bytes, segments_.at(address).stream);
  if (free_.erase(key(piece)) == 0) throw std::logic_error{"released, but not free"};
  pieces_.erase(address);
  segments_.erase(address);
}

std::vector<TorchModel::Segment> TorchModel::segments() const {
  std::vector<Segment> result;
  for (const auto& [address, segment] : segments_) {
    result.push_back(segment);
    for (auto piece = pieces_.find(address);
         piece != pieces_.end() && piece->second.segment == address; ++piece) {
      result.back().blocks.push_back(piece->second.block);
    }
  }
  return result;
}

std::vector<std::uint64_t> TorchModel::in_state(BlockState state) const {
  std::vector<std::uint64_t> addresses;
  for (const auto& [address, piece] : pieces_) {
    if (piece.block.state == state) addresses.push_back(address);
  }
  return addresses;
}

void TorchModel::record(TorchAction action, std::uint64_t address, std::uint64_t bytes,
                        std::int64_t stream) {
  events_.push_back({action, address, bytes, stream, static_cast<std::int64_t>(events_.size())});
}

}  // namespace millrace::test
