#include "page/free_memory.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace millrace::cli {

void FreeMemory::acquired(std::uint64_t begin, std::uint64_t end, std::uint32_t stream,
                          PageEvent now) {
  if (end <= begin) return;
  released(begin, end, now);
  parts_[begin] = {.end = end, .block = kUnknown, .stream = stream, .since = now};
}

void FreeMemory::released(std::uint64_t begin, std::uint64_t end, PageEvent now) {
  remove(begin, end, now, [](std::uint64_t, const Part&) {});
}

void FreeMemory::moved(std::uint64_t from, std::uint64_t to, std::uint64_t bytes, PageEvent now) {
  std::vector<std::pair<std::uint64_t, Part>> parts;
  remove(from, from + bytes, now,
         [&](std::uint64_t begin, const Part& part) { parts.emplace_back(begin, part); });
  released(to, to + bytes, now);
  for (auto& [begin, part] : parts) {
    part.end = part.end - from + to;
    part.since = now;
    parts_[begin - from + to] = part;
  }
}

std::vector<FreeMemory::Taken> FreeMemory::taken(std::uint32_t block, PageEvent now) {
  const PageBlock& by = blocks_[block];
  std::vector<Taken> taken;
  if (by.bytes == 0) return taken;
  const std::uint64_t end = by.address + by.bytes;
  remove(by.address, end, now, [&](std::uint64_t begin, const Part& part) {
    if (part.block != kUnknown) taken.push_back({part.block, part.end - begin});
  });
  parts_[by.address] = {.end = end, .block = block, .stream = kUnknown, .since = now};
  return taken;
}

std::vector<PageFree> FreeMemory::finish(PageEvent end) {
  for (const auto& [begin, part] : parts_) close(begin, part.end, part, end);
  parts_.clear();
  return std::move(free_);
}

// Removes a range. Parts that extend beyond the range are split.
template <typename Found>
void FreeMemory::remove(std::uint64_t begin, std::uint64_t end, PageEvent now, Found found) {
  auto at = parts_.lower_bound(begin);
  if (at != parts_.begin() && std::prev(at)->second.end > begin) --at;
  while (at != parts_.end() && at->first < end) {
    const auto [from, part] = *at;
    at = parts_.erase(at);
    Part cut = part;
    if (from < begin) {
      cut.end = begin;
      parts_.emplace(from, cut);
    }
    if (part.end > end) at = parts_.emplace(end, part).first;
    cut.end = std::min(part.end, end);
    const std::uint64_t first = std::max(from, begin);
    close(first, cut.end, cut, now);
    found(first, cut);
  }
}

void FreeMemory::close(std::uint64_t begin, std::uint64_t end, const Part& part, PageEvent now) {
  PageFree free{.address = begin,
                .bytes = end - begin,
                .device = device_,
                .stream = part.stream,
                .from = part.since,
                .to = now};
  if (part.block != kUnknown) {
    const PageBlock& block = blocks_[part.block];
    if (block.freed == kUnknown) return;
    const PageEvent ready = block.ready == kUnknown ? block.freed : block.ready;
    free.stream = block.stream;
    free.from = std::max({part.since, block.freed, ready});
    if (usable_) free.to = std::min(free.to, usable_(part.block));
  }
  if (free.stream != kUnknown && free.from < free.to) free_.push_back(free);
}

}  // namespace millrace::cli
