#include "check/race_log.hpp"

namespace millrace::virtual_cuda {

void RaceLog::add(const RaceChecker::Race& race, const std::string& memory) {
  add(to_string(race.kind), race.first_name, race.second_name, race.message + memory);
}

void RaceLog::add(const std::string& kind, const std::string& first, const std::string& second,
                  const std::string& message) {
  ++races_;
  if (named_.size() >= kMostNamed) return;
  if (!pairs_.insert(kind + '\n' + first + '\n' + second).second) return;
  named_.push_back({kind, message});
  std::fprintf(stderr, "millrace virtual CUDA: race (%s): %s\n", kind.c_str(),
               named_.back().message.c_str());
}

void RaceLog::write_summary(std::FILE* file) const {
  std::fprintf(file, "  races: %llu", static_cast<unsigned long long>(races_));
  if (races_ != 0)
    std::fprintf(file, " (%s%zu pairs of places, named on standard error)",
                 named_.size() < kMostNamed ? "" : "at least ", named_.size());
  std::fputc('\n', file);
}

}  // namespace millrace::virtual_cuda
