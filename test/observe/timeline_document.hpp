#pragma once

#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "millrace/device/operation.hpp"

namespace millrace::test {

/// A complete event of a Chrome trace.
struct Slice {
  std::string name, category, track;
  Nanoseconds begin{0}, end{0};
  nlohmann::json args;
};

/// Returns the number of slices that begin before the previous slice has ended.
[[nodiscard]] std::size_t overlaps(std::vector<Slice> slices);

/// A timeline as a viewer reads it. Reading checks the events: phases, numbers, named tracks.
class TimelineDocument {
 public:
  explicit TimelineDocument(const std::string& text);

  const nlohmann::json json;

  /// Returns the slices of these categories, in the order of the file.
  [[nodiscard]] std::vector<Slice> slices(std::initializer_list<std::string> categories) const;
  /// Returns the slices on tracks of this name, sorted by their begin.
  [[nodiscard]] std::vector<Slice> on_track(const std::string& name,
                                            std::initializer_list<std::string> categories) const;
  [[nodiscard]] std::vector<std::string> tracks() const;
  /// Returns the slices that each arrow connects. As in Perfetto, an end of an arrow belongs to the
  /// slice that was written last before it.
  [[nodiscard]] const std::vector<std::pair<Slice, Slice>>& arrows() const { return arrows_; }
  [[nodiscard]] std::vector<std::size_t> counter(const std::string& process,
                                                 const std::string& name) const;

 private:
  using Track = std::pair<int, int>;
  void read_slice(const nlohmann::json& event, const Track& track);
  void read_arrow(const nlohmann::json& event, const Track& track);

  std::map<Track, std::string> threads_;
  std::map<int, std::string> processes_;
  std::vector<Slice> slices_;
  std::map<Track, std::size_t> last_;
  std::map<int, Slice> open_;
  std::vector<std::pair<Slice, Slice>> arrows_;
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> counters_;
};

}  // namespace millrace::test
