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
 * @brief Where processes find each other before they have a group, and hear that one has failed.
 *
 * Thread-safe. Over TCP every rank keeps a connection to rank 0, so that a process that dies is
 * known within the time of a look (`failure`); through a file only what a rank says is known.
 */
class Rendezvous {
 public:
  struct Options {
    std::chrono::milliseconds time_out{std::chrono::minutes{5}};  ///< for all to come
  };

  /**
   * @brief Rank 0 listens at this port of its host.
   * @throws CollectiveError if not all ranks have come in time; std::runtime_error if the port can
   *         not be had, or the host is not known
   */
  [[nodiscard]] static std::unique_ptr<Rendezvous> over_tcp(const std::string& host,
                                                            std::uint16_t port, unsigned rank,
                                                            unsigned size, const Options& options);
  /** @brief Through files whose names begin so, in a folder that all see; none is there before. */
  [[nodiscard]] static std::unique_ptr<Rendezvous> over_file(const std::filesystem::path& path,
                                                             unsigned rank, unsigned size,
                                                             const Options& options);
  /**
   * @brief By what torchrun puts into the environment: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT.
   *
   * Where torchrun's own store has the port (TORCHELASTIC_USE_AGENT_STORE is True), the next one.
   * @throws std::runtime_error that names what is not set; as `over_tcp`
   */
  [[nodiscard]] static std::unique_ptr<Rendezvous> from_environment(const Options& options);

  virtual ~Rendezvous() = default;
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  [[nodiscard]] unsigned rank() const noexcept { return rank_; }
  [[nodiscard]] unsigned size() const noexcept { return size_; }

  /**
   * @brief What rank 0 has in `bytes` every rank has there when this returns, and every rank has
   *        come. As many bytes on each, as often, in the same order.
   * @throws CollectiveError if a rank failed, is gone or has not come in time
   */
  virtual void share(std::span<std::byte> bytes) = 0;

  struct Failure {
    unsigned rank = 0;
    std::string why;
  };
  virtual void tell_failure(const Failure& failure) noexcept = 0;
  /** @brief The first that was heard of. Does not wait. */
  [[nodiscard]] virtual std::optional<Failure> failure() = 0;

 protected:
  Rendezvous(unsigned rank, unsigned size) : rank_(rank), size_(size) {}

 private:
  const unsigned rank_, size_;
};

}  // namespace millrace
