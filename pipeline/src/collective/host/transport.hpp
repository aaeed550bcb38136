#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace millrace::collective {

/** @brief Host memory to send to, and to receive from, each rank. Must live until the exchange
 * ends.
 */
struct Blocks {
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<std::byte>> receives;
};

/** @brief An exchange in progress. Destroying it before `wait` abandons the exchange. */
class PendingBlocks {
 public:
  virtual ~PendingBlocks() = default;
  /** @throws CollectiveError */
  virtual void wait() = 0;
};

/** @brief Exchanges bytes in host memory between all ranks. */
class Transport {
 public:
  virtual ~Transport() = default;

  /** @param what  the operation's name, for errors ("all-to-all", ...); the same on each rank */
  [[nodiscard]] virtual std::unique_ptr<PendingBlocks> start(const char* what,
                                                             const Blocks& blocks) = 0;
  virtual void fail(const std::string& why) noexcept = 0;
  virtual void check() = 0;

  void exchange(const char* what, const Blocks& blocks) { start(what, blocks)->wait(); }
};

}  // namespace millrace::collective
