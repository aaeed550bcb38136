#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "test/support/torch_model.hpp"

namespace millrace::test {

/// A random program on one device of PyTorch, with a private pool beside the default one, and what
/// a snapshot of it shows.
class TorchProgram {
 public:
  struct Options {
    trace::TorchSettings settings;
    std::uint64_t largest = std::uint64_t{30} << 20;  ///< request
    trace::TorchPool private_pool{0, 1};
    std::uint64_t base = std::uint64_t{1} << 40;
  };

  TorchProgram(std::uint64_t seed, const Options& options);

  void run(std::size_t steps);
  /// What was recorded up to now is forgotten, as by a ring buffer that is full.
  void forget() { events_.clear(); }

  [[nodiscard]] const std::vector<trace::TorchEvent>& events() const { return events_; }
  [[nodiscard]] std::vector<trace::TorchSegment> segments() const;
  /// @param tells_pools  events have `pool_id`, as newer versions write it
  [[nodiscard]] nlohmann::json snapshot(bool tells_pools = false) const;

 private:
  void step();
  void note(std::size_t pool);
  [[nodiscard]] std::uint64_t draw(std::uint64_t below) { return random_() % below; }

  Options options_;
  std::mt19937_64 random_;
  std::uint64_t next_address_;
  std::vector<TorchModel> pools_;  // the default one, and the private one
  std::vector<std::size_t> noted_;
  std::vector<trace::TorchEvent> events_;
};

}  // namespace millrace::test
