#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/host/transport.hpp"
#include "collective/mpi/mpi.hpp"

namespace millrace::collective {

/**
 * @brief Sends, for each exchange, a header (number, bytes, name) and the bytes from rank to rank.
 *
 * A rank announces on a second communicator that it failed or left, so that a waiting rank can
 * check there.
 */
class MpiTransport final : public Transport {
 public:
  MpiTransport(MPI_Comm world, std::chrono::milliseconds time_out);
  ~MpiTransport() override;
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  std::unique_ptr<PendingBlocks> start(const char* what, const Blocks& blocks) override;
  void fail(const std::string& why) noexcept override;
  void check() override;

 private:
  class Exchange;
  struct Failure {
    unsigned rank;
    std::string message;
  };

  void listen();
  void notify_all(const void* data, int count, MPI_Datatype type, int tag) noexcept;
  void record_failure(unsigned rank, std::string message, bool tell);
  void throw_failure() const;

  MPI_Comm data_ = MPI_COMM_NULL, control_ = MPI_COMM_NULL;
  unsigned rank_ = 0, size_ = 1;
  const std::chrono::milliseconds time_out_;
  const int exceptions_;
  std::uint64_t started_ = 0;
  std::optional<Failure> failure_;
  std::vector<std::optional<std::uint64_t>> left_;  ///< number of exchanges before a rank left
};

}  // namespace millrace::collective
