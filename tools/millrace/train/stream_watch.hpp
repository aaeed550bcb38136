#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "millrace/streamer/shipper.hpp"

namespace millrace::cli {

/**
 * @brief Reports the state of the sinks during training.
 *
 * A terminal shows it in the status line. Otherwise the log gets a line each time that a sink goes
 * down or works again. A sink for which streaming has stopped always gets a line.
 */
class StreamWatch {
 public:
  /**
   * @param sinks      their names
   * @param says_down  write lines for sinks that go down or work again, because no status line does
   */
  StreamWatch(std::vector<std::string> sinks, bool says_down)
      : sinks_(std::move(sinks)), states_(sinks_.size()), says_down_(says_down) {}

  /** @brief Lines that are due now. Each line is returned once. @param health  one for each sink */
  [[nodiscard]] std::vector<std::string> news(const std::vector<ShippingHealth>& health);

  /** @brief For the status line: the sinks that are down or far behind, and for how long; "" if
   *         none. */
  [[nodiscard]] std::string status(const std::vector<ShippingHealth>& health) const;

 private:
  struct State {
    bool given_up = false, down = false;
    Nanoseconds longest{0};  ///< current duration of the outage
  };

  std::vector<std::string> sinks_;
  std::vector<State> states_;
  bool says_down_;
};

}  // namespace millrace::cli
