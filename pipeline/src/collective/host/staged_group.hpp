#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "collective/host/hosted_group.hpp"
#include "millrace/device/stream.hpp"

namespace millrace::collective {

/** @brief Pinned memory that only grows. */
class Staging {
 public:
  explicit Staging(Device& device) : device_(device) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /** @brief Grows to at least this size; the contents are lost. */
  [[nodiscard]] std::span<std::byte> room(std::size_t bytes);
  /** @brief Never frees the memory, because a peer may still use it. */
  void keep() noexcept { memory_ = {}; }

 private:
  Device& device_;
  std::span<std::byte> memory_;
};

/**
 * @brief A group that moves device memory through pinned memory: the host waits for the stream,
 *        exchanges the bytes, and enqueues the copy back.
 */
class StagedGroup final : public HostedGroup {
 public:
  StagedGroup(unsigned rank, unsigned size, std::unique_ptr<Transport> transport,
              OrderedDevice& device, std::string_view name);
  ~StagedGroup() override;

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }

 private:
  void do_all_to_all(std::span<const SentBytes> sends, std::span<const ReceivedBytes> receives,
                     StreamRef stream) override;
  void do_all_reduce_sum(float* data, std::size_t count, StreamRef stream) override;
  void do_broadcast(void* data, std::size_t bytes, unsigned root, StreamRef stream) override;

  template <typename Exchange>
  void staged(StreamRef stream, Exchange exchange);

  OrderedDevice& device_;
  const std::string_view name_;
  Staging sent_, received_;
  Event copied_back_;  ///< recorded after the last read of `received_`
};

}  // namespace millrace::collective
