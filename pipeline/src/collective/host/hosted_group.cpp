#include "collective/host/hosted_group.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace millrace::collective {
namespace {

using Numbers = std::vector<std::int64_t>;

/** Returns the bytes of each rank's numbers; all ranks have equally many. */
template <typename Span>
std::vector<Span> parts_of(Numbers& numbers, std::size_t ranks) {
  const Span all = std::as_writable_bytes(std::span{numbers});
  const std::size_t each = all.size() / ranks;
  std::vector<Span> parts;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    parts.push_back(all.subspan(rank * each, each));
  }
  return parts;
}

/** Sends each rank the state of this rank, followed by the values for that rank. */
class HostedSizes final : public PendingSizes {
 public:
  HostedSizes(std::shared_ptr<Transport> transport, std::size_t ranks, RankState state,
              std::span<const std::int64_t> values)
      : transport_(std::move(transport)), ranks_(ranks), width_(values.size() / ranks) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      sent_.push_back(static_cast<std::int64_t>(state));
      const auto those = values.subspan(rank * width_, width_);
      sent_.insert(sent_.end(), those.begin(), those.end());
    }
    received_.resize(sent_.size());
    pending_ = transport_->start("exchange of sizes",
                                 {.sends = parts_of<std::span<const std::byte>>(sent_, ranks),
                                  .receives = parts_of<std::span<std::byte>>(received_, ranks)});
  }

  ~HostedSizes() override {
    if (pending_ == nullptr) return;
    transport_->fail("an exchange of sizes was given up between its start and its wait");
  }

  ExchangedSizes wait() override {
    const std::unique_ptr<PendingBlocks> pending = std::exchange(pending_, nullptr);
    pending->wait();
    ExchangedSizes sizes;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const std::span part = std::span{received_}.subspan(rank * (1 + width_), 1 + width_);
      sizes.states.push_back(static_cast<RankState>(part.front()));
      sizes.values.insert(sizes.values.end(), part.begin() + 1, part.end());
    }
    return sizes;
  }

 private:
  const std::shared_ptr<Transport> transport_;
  const std::size_t ranks_, width_;
  Numbers sent_, received_;
  std::unique_ptr<PendingBlocks> pending_;  ///< last: destroyed before the memory that it uses
};

}  // namespace

std::unique_ptr<PendingSizes> HostedGroup::do_start_sizes(RankState state,
                                                          std::span<const std::int64_t> values) {
  return std::make_unique<HostedSizes>(transport_, size(), state, values);
}

void HostedGroup::do_barrier() {
  Numbers sent(size()), received(size());
  transport_->exchange("barrier", {.sends = parts_of<std::span<const std::byte>>(sent, size()),
                                   .receives = parts_of<std::span<std::byte>>(received, size())});
}

}  // namespace millrace::collective
