#pragma once

#include <memory>
#include <string_view>

#include "collective/host/hosted_group.hpp"
#include "collective/threads/ranks.hpp"

namespace millrace::collective {

/**
 * @brief A group of ranks whose devices belong to one virtual machine. Each operation is a meeting.
 */
class MeetingGroup final : public HostedGroup {
 public:
  MeetingGroup(unsigned rank, std::shared_ptr<SharedRanks> ranks, VirtualDevice& device);

  [[nodiscard]] std::string_view name() const noexcept override { return "threads"; }

 private:
  void do_all_to_all(std::span<const SentBytes> sends, std::span<const ReceivedBytes> receives,
                     StreamRef stream) override;
  void do_all_reduce_sum(float* data, std::size_t count, StreamRef stream) override;
  void do_broadcast(void* data, std::size_t bytes, unsigned root, StreamRef stream) override;

  struct Traffic {
    double link = 0;    ///< bytes sent or received, whichever is more
    double memory = 0;  ///< bytes read and written
  };
  void meet(const SharedRanks::Part& part, const Meeting::Effect& effect, std::vector<View> views,
            const Traffic& traffic, StreamRef stream);

  const std::shared_ptr<SharedRanks> ranks_;
  VirtualDevice& device_;
  std::uint64_t next_ = 0;
};

}  // namespace millrace::collective
