#include "observe/trace/log_builder.hpp"

namespace millrace::trace {

std::uint32_t LogBuilder::stream(const LoggedStream& stream) {
  const auto [known, fresh] = streams_.try_emplace({stream.device, stream.handle, stream.thread},
                                                   static_cast<std::uint32_t>(log_.streams.size()));
  if (fresh) log_.streams.push_back(stream);
  return known->second;
}

std::uint32_t LogBuilder::allocate(const LoggedBlock& block, const LogEvent& event) {
  const auto index = static_cast<std::uint32_t>(log_.blocks.size());
  log_.blocks.push_back(block);
  live_.insert_or_assign({block.device, block.address}, index);
  if (!block.live_at_start) {
    log_.events.push_back(event);
    log_.events.back().block = index;
  }
  return index;
}

void LogBuilder::free(std::uint32_t block, const LogEvent& event) {
  log_.events.push_back(event);
  log_.events.back().block = block;
}

std::optional<std::uint32_t> LogBuilder::find(std::uint32_t device, std::uint64_t address) const {
  const auto found = live_.find({device, address});
  if (found == live_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::uint32_t> LogBuilder::find_overlap(std::uint32_t device, std::uint64_t address,
                                                      std::uint64_t bytes) const {
  const auto after = live_.lower_bound({device, address});
  if (after != live_.end() && after->first.first == device &&
      (after->first.second == address || after->first.second - address < bytes)) {
    return after->second;
  }
  if (after == live_.begin()) return std::nullopt;
  const auto& [place, block] = *std::prev(after);
  if (place.first != device || address - place.second >= log_.blocks[block].bytes)
    return std::nullopt;
  return block;
}

std::vector<std::uint32_t> LogBuilder::live_on(std::uint32_t device) const {
  std::vector<std::uint32_t> blocks;
  const auto end = live_.lower_bound({device + 1, 0});
  for (auto it = live_.lower_bound({device, 0}); it != end; ++it) blocks.push_back(it->second);
  return blocks;
}

void LogBuilder::forget(std::uint32_t block) {
  const LoggedBlock& forgotten = log_.blocks[block];
  const auto found = live_.find({forgotten.device, forgotten.address});
  if (found != live_.end() && found->second == block) live_.erase(found);
}

}  // namespace millrace::trace
