#include "collective/threads/meeting_group.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace millrace::collective {
namespace {

/**
 * Copies each send buffer to its receiver. The views of each party: first its send buffers by rank,
 * then its receive buffers by rank.
 */
void bring_to_all(std::span<const KernelContext> parties) {
  const std::size_t ranks = parties.size();
  for (std::size_t to = 0; to < ranks; ++to) {
    for (std::size_t from = 0; from < ranks; ++from) {
      std::ranges::copy(parties[from].bytes(to), parties[to].bytes(ranks + from).begin());
    }
  }
}

// Adds in the order of the ranks, so that a sum has the same bits under every schedule.
void sum_in_order(std::span<const KernelContext> parties) {
  const std::span<float> sum = parties[0].as<float>(0);
  for (const KernelContext& more : parties.subspan(1)) {
    const std::span<const float> addend = more.as<const float>(0);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += addend[i];
  }
  for (const KernelContext& party : parties.subspan(1)) {
    std::ranges::copy(sum, party.as<float>(0).begin());
  }
}

Meeting::Effect bring_from(unsigned root) {
  return [root](std::span<const KernelContext> parties) {
    const std::span<const std::byte> data = parties[root].bytes(0);
    for (unsigned to = 0; to < parties.size(); ++to) {
      if (to != root) std::ranges::copy(data, parties[to].bytes(0).begin());
    }
  };
}

double sum(const std::vector<std::size_t>& bytes) {
  return static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}));
}

}  // namespace

MeetingGroup::MeetingGroup(unsigned rank, std::shared_ptr<SharedRanks> ranks, VirtualDevice& device)
    : HostedGroup(rank, ranks->size, make_thread_transport(ranks, rank)),
      ranks_(std::move(ranks)),
      device_(device) {}

void MeetingGroup::meet(const SharedRanks::Part& part, const Meeting::Effect& effect,
                        std::vector<View> views, const Traffic& traffic, StreamRef stream) {
  const LinkModel& link = ranks_->options.link;
  Operation operation;
  operation.name = part.what;
  operation.views = std::move(views);
  operation.cost.bytes = traffic.memory;
  if (size() > 1) {
    // The device moves `traffic.memory` at the same time: only the additional time of the link
    // counts.
    const double beside = traffic.memory / device_.profile().memory_bandwidth;
    const double seconds = std::max(0.0, traffic.link / link.bytes_per_second - beside);
    operation.cost.fixed = link.latency + Nanoseconds{static_cast<Nanoseconds::rep>(seconds * 1e9)};
  }
  const std::shared_ptr<Meeting> meeting = ranks_->join(rank(), next_++, part, effect);
  operation.meeting = meeting;
  operation.party = rank();
  try {
    device_.launch(std::move(operation), stream.handle());
  } catch (...) {  // the others would wait forever for this rank's part
    meeting->cancel();
    throw;
  }
}

void MeetingGroup::do_all_to_all(std::span<const SentBytes> sends,
                                 std::span<const ReceivedBytes> receives, StreamRef stream) {
  SharedRanks::Part part{"all-to-all", {}, {}};
  std::vector<View> views;
  for (const SentBytes& block : sends) {
    part.sends.push_back(block.bytes);
    views.push_back({const_cast<void*>(block.data), block.bytes, Access::read});
  }
  for (const ReceivedBytes& block : receives) {
    part.receives.push_back(block.bytes);
    views.push_back({block.data, block.bytes, Access::write});
  }
  // Bytes that a rank sends to itself do not cross the link.
  const auto own = static_cast<double>(sends[rank()].bytes);
  const double most = std::max(sum(part.sends), sum(part.receives));
  meet(part, bring_to_all, std::move(views),
       {.link = most - own, .memory = sum(part.sends) + sum(part.receives)}, stream);
}

void MeetingGroup::do_all_reduce_sum(float* data, std::size_t count, StreamRef stream) {
  const std::size_t bytes = count * sizeof(float);
  const auto ranks = static_cast<double>(size());
  // Models a ring: every byte goes around it once to be reduced, and once to reach all ranks.
  const double link = 2 * (ranks - 1) / ranks * static_cast<double>(bytes);
  const std::vector<std::size_t> all(size(), bytes);
  meet({"all-reduce", all, all}, sum_in_order, {{data, bytes, Access::read_write}},
       {.link = link, .memory = link + static_cast<double>(bytes)}, stream);
}

void MeetingGroup::do_broadcast(void* data, std::size_t bytes, unsigned root, StreamRef stream) {
  const std::vector<std::size_t> all(size(), bytes);
  const Access access = rank() == root ? Access::read : Access::write;
  meet({"broadcast", all, all}, bring_from(root), {{data, bytes, access}},
       {.link = static_cast<double>(bytes), .memory = static_cast<double>(bytes)}, stream);
}

}  // namespace millrace::collective
