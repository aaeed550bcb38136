#include "check/race_log.hpp"

#include <utility>

#include "check/rules.hpp"

namespace millrace::virtual_cuda {

void RaceLog::add(const RaceChecker::Race& race, const std::string& memory) {
  add(to_string(race.kind), race.first_name, race.second_name, race.message + memory);
}

void RaceLog::add(const std::string& kind, const std::string& first, const std::string& second,
                  const std::string& message) {
  const std::string heading = "race (" + kind + ")";
  name(races_, heading.c_str(), {kind, message}, first, second);
}

void RaceLog::add_out_of_bounds(const std::string& access, const std::string& allocation,
                                const std::string& message) {
  name(bounds_, "out of bounds", {"out of bounds", message}, access, allocation);
}

void RaceLog::name(Count& count, const char* heading, Entry entry, const std::string& first,
                   const std::string& second) {
  ++count.found;
  if (named_.size() >= kMostNamed) return;
  const bool added = pairs_.insert(entry.kind + '\n' + first + '\n' + second).second;
  if (!added && holds(Rule::pairs_once)) return;
  ++count.named;
  entry.message += sites_->stacks_of(entry.message);
  named_.push_back(std::move(entry));
  std::fprintf(stderr, "millrace virtual CUDA: %s: %s\n", heading, named_.back().message.c_str());
}

void RaceLog::write(std::FILE* file, const char* what, const char* places,
                    const Count& count) const {
  std::fprintf(file, "  %s: %llu", what, static_cast<unsigned long long>(count.found));
  if (count.found != 0)
    std::fprintf(file, " (%s%zu %s, named on standard error)",
                 named_.size() < kMostNamed ? "" : "at least ", count.named, places);
  std::fputc('\n', file);
}

void RaceLog::write_summary(std::FILE* file) const {
  write(file, "races", "pairs of places", races_);
  if (bounds_.found != 0) write(file, "accesses out of bounds", "places", bounds_);
}

}  // namespace millrace::virtual_cuda
