#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

#include "cli/status_line.hpp"

namespace millrace::cli {

/** @brief A status line about how many pieces of long work are done. From any thread. */
class Progress {
 public:
  /** @param all  how many pieces there are */
  Progress(std::string what, std::size_t all) : what_(std::move(what)), all_(all) {}

  /** @brief One piece is done. @param about  which, for people */
  void advance(std::string_view about = {});

 private:
  const std::string what_;
  const std::size_t all_;
  std::mutex mutex_;
  StatusLine line_;
  std::size_t done_ = 0;
};

}  // namespace millrace::cli
