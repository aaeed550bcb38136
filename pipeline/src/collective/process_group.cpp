#include "millrace/pipeline/collective/process_group.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "millrace/pipeline/fail_group_on_error.hpp"

namespace millrace {

ProcessGroup::ProcessGroup(unsigned rank, unsigned size) : rank_(rank), size_(size) {
  if (rank < size) return;
  throw std::invalid_argument{
      fmt::format("rank {} is out of range: the group has {} ranks", rank, size)};
}

std::unique_ptr<PendingSizes> ProcessGroup::start_sizes(RankState state,
                                                        std::span<const std::int64_t> values) {
  if (values.size() % size_ != 0) {
    throw std::invalid_argument{
        fmt::format("{} sizes do not divide among {} ranks", values.size(), size_)};
  }
  return fail_group_on_error(*this, [&] { return do_start_sizes(state, values); });
}

ExchangedSizes ProcessGroup::exchange_sizes(RankState state, std::span<const std::int64_t> values) {
  return start_sizes(state, values)->wait();
}

void ProcessGroup::barrier() {
  fail_group_on_error(*this, [&] { do_barrier(); });
}

void ProcessGroup::all_to_all(std::span<const SentBytes> sends,
                              std::span<const ReceivedBytes> receives, StreamRef stream) {
  // Refused before the group takes part, so that a wrong argument does not change the group.
  if (sends.size() != size_ || receives.size() != size_) {
    throw std::invalid_argument{fmt::format("all-to-all of {} ranks: {} to send, {} to receive",
                                            size_, sends.size(), receives.size())};
  }
  if (sends[rank_].bytes != receives[rank_].bytes) {
    throw std::invalid_argument{
        fmt::format("all-to-all: rank {} sends itself {} bytes, and "
                    "receives {}",
                    rank_, sends[rank_].bytes, receives[rank_].bytes)};
  }
  fail_group_on_error(*this, [&] { do_all_to_all(sends, receives, stream); });
}

void ProcessGroup::all_reduce_sum(float* data, std::size_t count, StreamRef stream) {
  fail_group_on_error(*this, [&] { do_all_reduce_sum(data, count, stream); });
}

void ProcessGroup::broadcast(void* data, std::size_t bytes, unsigned root, StreamRef stream) {
  if (root >= size_) {
    throw std::invalid_argument{
        fmt::format("broadcast from rank {}: the group has {} ranks", root, size_)};
  }
  fail_group_on_error(*this, [&] { do_broadcast(data, bytes, root, stream); });
}

}  // namespace millrace
