#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "millrace/pipeline/collective/collective_error.hpp"

namespace millrace {

/**
 * @brief Connects processes before they have a group, and reports failed ranks. Thread-safe.
 *
 * Over TCP every rank keeps a connection to rank 0, so the next call of `failure` reports a process
 * that died. Through files, a failure is known only if the rank reports it (`report_failure`).
 */
class Rendezvous {
 public:
  /** @brief How long the ranks wait for each other. */
  struct Options {
    /** Longest time until all ranks are connected. */
    std::chrono::milliseconds time_out{std::chrono::minutes{5}};
  };

  /**
   * @brief Connects over TCP; rank 0 listens. Blocks until all ranks are connected.
   * @param host  the host of rank 0
   * @param port  the port that rank 0 listens on
   * @throws CollectiveError if a rank does not connect in time
   * @throws std::runtime_error if the port is not available or the host is unknown
   */
  [[nodiscard]] static std::unique_ptr<Rendezvous> over_tcp(const std::string& host,
                                                            std::uint16_t port, unsigned rank,
                                                            unsigned size, const Options& options);
  /**
   * @brief Connects through files in a folder that all ranks can access.
   * @param path  common beginning of the file names; no file of that name may exist before
   */
  [[nodiscard]] static std::unique_ptr<Rendezvous> over_file(const std::filesystem::path& path,
                                                             unsigned rank, unsigned size,
                                                             const Options& options);
  /**
   * @brief Connects over TCP with the environment variables that torchrun sets: RANK, WORLD_SIZE,
   *        MASTER_ADDR and MASTER_PORT.
   *
   * If torchrun's own store uses MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE is True), the port is
   * MASTER_PORT + 1.
   * @throws std::runtime_error that names a variable that is not set; otherwise like `over_tcp`
   */
  [[nodiscard]] static std::unique_ptr<Rendezvous> from_environment(const Options& options);

  virtual ~Rendezvous() = default;
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  [[nodiscard]] unsigned rank() const noexcept { return rank_; }
  [[nodiscard]] unsigned size() const noexcept { return size_; }

  /**
   * @brief Copies `bytes` of rank 0 to every rank. Blocks until every rank has called it.
   *
   * Every rank makes the same calls in the same order, with the same number of bytes, at most
   * 16 MiB.
   * @throws CollectiveError if a rank failed, is gone or did not call it in time
   * @throws std::invalid_argument if `bytes` is longer
   */
  virtual void share(std::span<std::byte> bytes) = 0;

  /** @brief The failure of a rank. */
  struct Failure {
    unsigned rank = 0;
    std::string why;
  };
  /** @brief Reports a failure to the other ranks. */
  virtual void report_failure(const Failure& failure) noexcept = 0;
  /** @brief The first failure that this rank knows of; std::nullopt if none. Does not block. */
  [[nodiscard]] virtual std::optional<Failure> failure() = 0;

 protected:
  Rendezvous(unsigned rank, unsigned size) : rank_(rank), size_(size) {}

 private:
  const unsigned rank_, size_;
};

}  // namespace millrace
