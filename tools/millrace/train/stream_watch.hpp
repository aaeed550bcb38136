#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "millrace/streamer/shipper.hpp"

namespace millrace::cli {

/**
 * @brief Says how sinks are while training goes on: on a terminal in the status line, and otherwise
 *        in one line of the log each time that a sink goes down or works again.
 */
class StreamWatch {
 public:
  /** @param sinks      their names
   *  @param says_down  lines say which sinks go down and work again: no status line does */
  StreamWatch(std::vector<std::string> sinks, bool says_down)
      : sinks_(std::move(sinks)), states_(sinks_.size()), says_down_(says_down) {}

  /** @brief Lines that are due now; each is given once. @param health  of each sink */
  [[nodiscard]] std::vector<std::string> news(const std::vector<ShippingHealth>& health);

  /** @brief For the status line: sinks that are down or far behind, with since when; "": none. */
  [[nodiscard]] std::string status(const std::vector<ShippingHealth>& health) const;

 private:
  struct State {
    bool given_up = false, down = false;
    Nanoseconds longest{0};  ///< that it was down for
  };

  std::vector<std::string> sinks_;
  std::vector<State> states_;
  bool says_down_;
};

}  // namespace millrace::cli
