#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace millrace::collective {

/** @brief Host memory for each rank, and from each rank. Must live until the exchange is through.
 */
struct Blocks {
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<std::byte>> receives;
};

/** @brief An exchange under way. Given up when it goes before `wait`. */
class PendingBlocks {
 public:
  virtual ~PendingBlocks() = default;
  /** @throws CollectiveError */
  virtual void wait() = 0;
};

/** @brief Brings bytes from host memory of each rank to host memory of each other. */
class Transport {
 public:
  virtual ~Transport() = default;

  /** @param what  "all-to-all", ...: the same on each rank, and told when something is wrong */
  [[nodiscard]] virtual std::unique_ptr<PendingBlocks> start(const char* what,
                                                             const Blocks& blocks) = 0;
  virtual void fail(const std::string& why) noexcept = 0;
  virtual void check() = 0;

  void exchange(const char* what, const Blocks& blocks) { start(what, blocks)->wait(); }
};

}  // namespace millrace::collective
