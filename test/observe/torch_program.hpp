#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "test/support/torch_model.hpp"

namespace millrace::test {

/// A random PyTorch program on one device, with the default pool and a private pool. Returns
/// snapshots of it.
class TorchProgram {
 public:
  struct Options {
    trace::TorchSettings settings;
    std::uint64_t largest = std::uint64_t{30} << 20;  ///< bytes of the largest request
    trace::TorchPool private_pool{0, 1};
    std::uint64_t base = std::uint64_t{1} << 40;
  };

  TorchProgram(std::uint64_t seed, const Options& options);

  void run(std::size_t steps);
  /// Drops the events that were recorded so far, as a full ring buffer does.
  void forget() { events_.clear(); }

  [[nodiscard]] const std::vector<trace::TorchEvent>& events() const { return events_; }
  [[nodiscard]] std::vector<trace::TorchSegment> segments() const;
  /// @param tells_pools  whether events have `pool_id`, which newer versions of PyTorch write
  [[nodiscard]] nlohmann::json snapshot(bool tells_pools = false) const;

 private:
  void step();
  void note(std::size_t pool);
  [[nodiscard]] std::uint64_t draw(std::uint64_t below) { return random_() % below; }

  Options options_;
  std::mt19937_64 random_;
  std::uint64_t next_address_;
  std::vector<TorchModel> pools_;  // the default pool, then the private one
  std::vector<std::size_t> noted_;
  std::vector<trace::TorchEvent> events_;
};

}  // namespace millrace::test
