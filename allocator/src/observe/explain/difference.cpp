#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "millrace/observe/explain_difference.hpp"

namespace millrace {

namespace {

using Key = std::tuple<MemoryPart, std::string, std::string>;

std::set<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>> handles(const Explanation& of) {
  std::set<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>> all;
  for (const trace::LoggedStream& stream : of.streams) {
    all.emplace(stream.device, stream.handle, stream.thread);
  }
  return all;
}

const DeviceExplanation* find(const Explanation& explanation, std::uint32_t device) {
  const auto found = std::ranges::find(explanation.devices, device, &DeviceExplanation::device);
  return found == explanation.devices.end() ? nullptr : &*found;
}

/** Collects the shares of two logs under the same keys. */
class Joined {
 public:
  explicit Joined(bool of_reserved) : of_reserved_(of_reserved) {}

  void add(const Explanation& explanation, const std::vector<std::string>& streams,
           const DeviceExplanation& device, bool is_first) {
    for (const MemoryShare& share : device.peak.shares) {
      if (!of_reserved_ && share.part != MemoryPart::live) continue;
      MemoryDifference& row =
          rows_[{share.part, name_of(streams, share), explanation.sites[share.site].origin}];
      (is_first ? row.first : row.second) += share.bytes;
      (is_first ? row.first_blocks : row.second_blocks) += share.blocks;
      (is_first ? first_ : second_) += share.bytes;
    }
  }

  static std::string name_of(const std::vector<std::string>& streams, const MemoryShare& share) {
    return share.stream == MemoryShare::kNoStream ? "any stream" : streams[share.stream];
  }

  [[nodiscard]] DeviceDifference result(std::uint32_t device) const {
    DeviceDifference result{.device = device,
                            .of_reserved = of_reserved_,
                            .first = first_,
                            .second = second_,
                            .rows = {}};
    for (const auto& [key, row] : rows_) {
      if (row.first == row.second) continue;
      result.rows.push_back(row);
      std::tie(result.rows.back().part, result.rows.back().stream, result.rows.back().site) = key;
    }
    std::ranges::stable_sort(result.rows, std::greater{},
                             [](const MemoryDifference& row) { return std::abs(row.change()); });
    return result;
  }

 private:
  const bool of_reserved_;
  std::map<Key, MemoryDifference> rows_;
  std::uint64_t first_ = 0, second_ = 0;
};

}  // namespace

std::vector<std::string> stream_names(const Explanation& explanation, bool numbered) {
  std::vector<std::string> names;
  std::map<std::uint32_t, std::size_t> count;  // by device
  for (const trace::LoggedStream& stream : explanation.streams) {
    if (!stream.name.empty()) {
      // A recording uses the names "stream 3", "default stream" and "cudaMalloc".
      const bool says_so =
          stream.for_all || stream.name.starts_with("stream ") || stream.name.ends_with(" stream");
      names.push_back(says_so ? stream.name : "stream " + stream.name);
    } else if (stream.handle == 0) {
      names.emplace_back("default stream");
    } else if (numbered) {
      names.push_back(fmt::format("side stream {}", ++count[stream.device]));
    } else if (stream.thread != 0) {
      names.push_back(fmt::format("per-thread stream of {}", stream.thread));
    } else {
      names.push_back(fmt::format("stream {:#x}", stream.handle));
    }
  }
  return names;
}

std::vector<DeviceDifference> difference(const Explanation& first, const Explanation& second) {
  const bool numbered = handles(first) != handles(second);
  const auto first_names = stream_names(first, numbered);
  const auto second_names = stream_names(second, numbered);
  std::set<std::uint32_t> devices;
  for (const Explanation* const side : {&first, &second}) {
    for (const DeviceExplanation& device : side->devices) devices.insert(device.device);
  }
  std::vector<DeviceDifference> result;
  for (const std::uint32_t number : devices) {
    const DeviceExplanation* const a = find(first, number);
    const DeviceExplanation* const b = find(second, number);
    const auto knows = [](const DeviceExplanation* device) {
      return device == nullptr || device->peak.reserved.has_value();
    };
    Joined joined{knows(a) && knows(b)};
    if (a != nullptr) joined.add(first, first_names, *a, true);
    if (b != nullptr) joined.add(second, second_names, *b, false);
    result.push_back(joined.result(number));
  }
  return result;
}

}  // namespace millrace
