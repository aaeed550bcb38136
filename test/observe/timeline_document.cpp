#include "test/observe/timeline_document.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

namespace millrace::test {
namespace {

using Json = nlohmann::json;

Nanoseconds time(const Json& micros) {
  return Nanoseconds{std::llround(micros.get<double>() * 1000)};
}

void require(bool holds, const Json& event) {
  if (!holds) throw std::logic_error{"not an event as a viewer reads it: " + event.dump()};
}

}  // namespace

std::size_t overlaps(std::vector<Slice> slices) {
  std::stable_sort(slices.begin(), slices.end(),
                   [](const Slice& a, const Slice& b) { return a.begin < b.begin; });
  std::size_t found = 0;
  for (std::size_t i = 1; i < slices.size(); ++i) {
    if (slices[i].begin < slices[i - 1].end) ++found;
  }
  return found;
}

// Reads the names of processes and tracks first, because they may stand anywhere in the file.
TimelineDocument::TimelineDocument(const std::string& text) : json(Json::parse(text)) {
  for (const Json& event : json.at("traceEvents")) {
    if (event.at("ph") != "M") continue;
    const Json& args = event.at("args");
    if (event.at("name") == "process_name") processes_[event.at("pid")] = args.at("name");
    if (event.at("name") != "thread_name") continue;
    require(threads_.emplace(Track{event.at("pid"), event.at("tid")}, args.at("name")).second,
            event);
  }
  for (const Json& event : json.at("traceEvents")) {
    const std::string phase = event.at("ph");
    const Track track{event.at("pid"), event.at("tid")};
    require(processes_.contains(track.first), event);
    if (phase == "X") {
      read_slice(event, track);
    } else if (phase == "s" || phase == "f") {
      read_arrow(event, track);
    } else if (phase == "C") {
      counters_[{processes_.at(track.first), event.at("name")}].push_back(
          event.at("args").at("bytes"));
    } else {
      require(phase == "M", event);
    }
  }
  if (!open_.empty()) throw std::logic_error{"an arrow has one end only"};
}

void TimelineDocument::read_slice(const Json& event, const Track& track) {
  require(threads_.contains(track) && event.at("dur").get<double>() >= 0, event);
  Slice slice;
  slice.name = event.at("name");
  slice.category = event.at("cat");
  slice.track = threads_.at(track);
  slice.begin = time(event.at("ts"));
  slice.end = slice.begin + time(event.at("dur"));
  slice.args = event.value("args", Json::object());
  last_[track] = slices_.size();
  slices_.push_back(std::move(slice));
}

void TimelineDocument::read_arrow(const Json& event, const Track& track) {
  const bool begins = event.at("ph") == "s";
  require(last_.contains(track) && (begins || event.at("bp") == "e"), event);
  const Slice& tied = slices_[last_.at(track)];
  require(time(event.at("ts")) >= tied.begin && time(event.at("ts")) <= tied.end, event);
  const int id = event.at("id");
  if (begins) {
    require(open_.emplace(id, tied).second, event);
  } else {
    require(open_.contains(id), event);
    arrows_.emplace_back(open_.extract(id).mapped(), tied);
  }
}

std::vector<Slice> TimelineDocument::slices(std::initializer_list<std::string> categories) const {
  const std::set<std::string> wanted{categories};
  std::vector<Slice> found;
  for (const Slice& slice : slices_) {
    if (wanted.contains(slice.category)) found.push_back(slice);
  }
  return found;
}

std::vector<Slice> TimelineDocument::on_track(const std::string& name,
                                              std::initializer_list<std::string> categories) const {
  std::vector<Slice> found = slices(categories);
  std::erase_if(found, [&](const Slice& slice) { return slice.track != name; });
  std::stable_sort(found.begin(), found.end(),
                   [](const Slice& a, const Slice& b) { return a.begin < b.begin; });
  return found;
}

std::vector<std::string> TimelineDocument::tracks() const {
  std::set<std::string> names;
  for (const auto& [track, name] : threads_) names.insert(name);
  return {names.begin(), names.end()};
}

std::vector<std::size_t> TimelineDocument::counter(const std::string& process,
                                                   const std::string& name) const {
  const auto known = counters_.find({process, name});
  return known == counters_.end() ? std::vector<std::size_t>{} : known->second;
}

}  // namespace millrace::test
