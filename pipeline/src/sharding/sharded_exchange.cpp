#include "sharding/sharded_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "data/segment_copy.hpp"
#include "millrace/pipeline/kernels/enqueue.hpp"
#include "model/dispatch.hpp"
#include "sharding/host/kernels.hpp"
#include "sharding/outgoing.hpp"

namespace millrace::sharding {
namespace {

using Counts = std::vector<std::size_t>;

std::size_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

bool any_slots(const Side& side) {
  return std::ranges::any_of(side.slots, [](const auto& slots) { return !slots.empty(); });
}

std::size_t most_slots(const Layout& layout) {
  std::size_t most = 0;
  for (unsigned rank = 0; rank < layout.ranks; ++rank) {
    most = std::max(most, layout.sides[0].slots[rank].size() + layout.sides[1].slots[rank].size());
  }
  return most;
}

KeyedJaggedTensor own_features(const JaggedScope& scope, const Side& side,
                               const KeyedJaggedTensor& input) {
  if (side.own_features.empty()) return {};
  Counts order;
  for (const std::string& feature : side.own_features) order.push_back(input.find(feature));
  return permute(scope, input, order);
}

std::vector<std::string> names(const std::vector<Slot>& slots) {
  std::vector<std::string> all;
  all.reserve(slots.size());
  for (const Slot& slot : slots) all.push_back(slot.feature);
  return all;
}

}  // namespace

class ShardedExchange::Flight final : public FeatureExchange {
 public:
  Flight(ShardedExchange& exchange, const InputTensors& input, Stream& stream)
      : exchange_(exchange), layout_(*exchange.layout_), stream_(stream), batch_(input.batch_size) {
    const std::array inputs{input.sparse, input.weighted};
    for (std::size_t number = 0; number < 2; ++number) {
      const Side& side = layout_.sides[number];
      sides_[number].own = own_features(scope(), side, inputs[number]);
      sides_[number].means = means_of(side, inputs[number]);
      if (!any_slots(side)) continue;
      const KeyedJaggedTensor sent =
          side.positions ? with_positions(inputs[number]) : inputs[number];
      sides_[number].like = sent.layout();
      sides_[number].outgoing.emplace(exchange.context_, scope(), side, sent, *exchange.pinned_);
    }
    // If bags are split, the device counts their ids first, and `receive` sends the sizes.
    if (!splits()) send_sizes();
  }

  void receive(Waits waits) override {
    // A call that is repeated after an error continues here: sizes are exchanged once for each
    // batch.
    if (!known_) {
      if (sizes_ == nullptr) {
        await_counts(waits);
        send_sizes();
      }
      take(std::exchange(sizes_, nullptr)->wait());
    }
    check();
    for (std::size_t side = 0; side < 2; ++side) make_room(sides_[side]);
    for (std::size_t side = 0; side < 2; ++side) {
      if (sides_[side].outgoing) exchange_side(side);
    }
  }

  // If the second side throws, the first stays arranged, so that the call can be repeated.
  SparseFeatures arrange() override {
    for (std::size_t side = 0; side < 2; ++side) {
      if (!sides_[side].arranged) sides_[side].arranged = arranged(side);
      sides_[side].received.reset();
    }
    SparseFeatures features{.unweighted = std::move(*sides_[0].arranged),
                            .weighted = std::move(*sides_[1].arranged)};
    if (layout_.sides[0].positions) take_positions(features);
    features.own_unweighted = std::move(sides_[0].own);
    features.own_weighted = std::move(sides_[1].own);
    features.own_means = std::move(sides_[0].means);
    features.own_weighted_means = std::move(sides_[1].means);
    features.examples = std::move(examples_);
    return features;
  }

 private:
  struct Way {
    KeyedJaggedTensor own;  ///< features of data-parallel tables, which are not sent
    BatchTensor means;      ///< as in SparseFeatures; not sent
    JaggedLayout like;      ///< the types of the tensors
    std::optional<Outgoing> outgoing;
    Features sent;
    std::optional<Features> received;
    std::optional<KeyedJaggedTensor> arranged;
    std::vector<Counts> counts;     ///< ids to receive, by rank and slot
    Counts lengths_from, ids_from;  ///< by rank
  };

  [[nodiscard]] JaggedScope scope() const {
    return {.memory = exchange_.context_.allocator(),
            .stream = stream_,
            .cost_only = exchange_.context_.cost_only(),
            .tag = exchange_.tag_};
  }

  [[nodiscard]] bool splits() const {
    return std::ranges::any_of(
        sides_, [](const Way& way) { return way.outgoing && way.outgoing->splits(); });
  }

  [[nodiscard]] BatchTensor means_of(const Side& side, const KeyedJaggedTensor& input) {
    ModelContext& context = exchange_.context_;
    BatchTensor means{context.allocator(), side.means.size() * batch_ * sizeof(float), stream_,
                      exchange_.tag_};
    if (means.empty()) return means;
    input.record_use(stream_);
    model::with_type(input.layout().length_type, [&]<typename Offset>(Offset) {
      for (std::size_t i = 0; i < side.means.size(); ++i) {
        model::enqueue<host::bag_means<Offset>, cuda::bag_means<Offset>>(
            context, stream_,
            {.name = "bag means",
             .bytes = static_cast<double>(batch_ * (sizeof(float) + sizeof(Offset)))},
            model::writes(static_cast<float*>(means.data()) + i * batch_, batch_),
            model::reads(static_cast<const Offset*>(input.offsets().data()),
                         input.offsets().bytes() / sizeof(Offset)),
            input.find(side.means[i]) * batch_);
      }
    });
    return means;
  }

  /** Returns the ids with their positions in place of weights, which these ids do not have. */
  [[nodiscard]] KeyedJaggedTensor with_positions(const KeyedJaggedTensor& input) {
    JaggedLayout layout = input.layout();
    layout.weighted = true;
    const BatchTensor positions{exchange_.context_.allocator(), layout.weight_bytes(), stream_,
                                exchange_.tag_};
    input.record_use(stream_);
    const std::size_t ids = layout.value_count();
    if (ids > 0) {
      model::with_type(layout.length_type, [&]<typename Offset>(Offset) {
        model::enqueue<host::bag_positions<Offset>, cuda::bag_positions<Offset>>(
            exchange_.context_, stream_,
            {.name = "bag positions",
             .bytes = static_cast<double>(layout.weight_bytes() + layout.offset_bytes())},
            model::writes(static_cast<float*>(positions.data()), ids),
            model::reads(static_cast<const Offset*>(input.offsets().data()),
                         layout.bag_count() + 1));
      });
    }
    return {layout, {input.values(), input.lengths(), input.offsets(), positions}};
  }

  static void take_positions(SparseFeatures& features) {
    const KeyedJaggedTensor with = std::move(features.unweighted);
    JaggedLayout layout = with.layout();
    layout.weighted = false;
    features.unweighted = {layout, {with.values(), with.lengths(), with.offsets(), {}}};
    features.positions = with.weights();
  }

  void await_counts(Waits waits) {
    if (waits == Waits::coarse) return stream_.synchronize();
    for (const Way& way : sides_) {
      if (way.outgoing && way.outgoing->splits()) {
        stream_.device().synchronize(way.outgoing->counted());
      }
    }
  }

  /** Sends each rank this rank's number of examples, and the number of ids of each of its slots. */
  void send_sizes() {
    ids_to_ = {};
    std::vector<std::int64_t> values(layout_.ranks * exchange_.width_);
    std::array<Counts, 2> counts;
    for (std::size_t side = 0; side < 2; ++side) {
      if (!sides_[side].outgoing) continue;
      counts[side] = sides_[side].outgoing->counts();
      sides_[side].sent = sides_[side].outgoing->gather(scope(), counts[side]);
    }
    std::array<std::size_t, 2> next{};
    for (unsigned to = 0; to < layout_.ranks; ++to) {
      auto at = values.begin() + static_cast<std::ptrdiff_t>(to * exchange_.width_);
      *at++ = static_cast<std::int64_t>(batch_);
      for (std::size_t side = 0; side < 2; ++side) {
        std::size_t ids = 0;
        for (std::size_t i = 0; i < layout_.sides[side].slots[to].size(); ++i) {
          const std::size_t count = counts[side][next[side]++];
          *at++ = static_cast<std::int64_t>(count);
          ids += count;
        }
        ids_to_[side].push_back(ids);
      }
    }
    sizes_ = exchange_.group_.start_sizes(RankState::ok, values);
  }

  /** Stores the sizes of the data that each rank will send. */
  void take(ExchangedSizes sizes) {
    for (unsigned from = 0; from < layout_.ranks; ++from) {
      const auto* at = sizes.values.data() + from * exchange_.width_;
      examples_.push_back(static_cast<std::size_t>(*at++));
      for (std::size_t side = 0; side < 2; ++side) {
        const std::size_t here = layout_.sides[side].slots[layout_.rank].size();
        Way& way = sides_[side];
        way.counts.emplace_back(at, at + here);
        way.ids_from.push_back(sum(way.counts.back()));
        way.lengths_from.push_back(here * examples_.back());
        at += here;
      }
    }
    known_ = std::move(sizes.states);
  }

  // Allocates everything before the first exchange, so that a rank that runs out of memory has not
  // begun one.
  void make_room(Way& way) {
    if (!way.outgoing || way.received) return;
    const auto room = [&](std::size_t bytes) {
      return BatchTensor{exchange_.context_.allocator(), bytes, stream_, exchange_.tag_};
    };
    const std::size_t ids = sum(way.ids_from);
    way.received = Features{room(sum(way.lengths_from) * bytes_of(way.like.length_type)),
                            room(ids * bytes_of(way.like.value_type)),
                            room(way.like.weighted ? ids * sizeof(float) : 0)};
  }

  void check() const {
    for (unsigned rank = 0; rank < layout_.ranks; ++rank) {
      if ((*known_)[rank] == RankState::ok) continue;
      const bool exhausted = (*known_)[rank] == RankState::exhausted;
      throw CollectiveError{
          rank, exhausted ? fmt::format("rank {} has no more batches, but rank {} has: every rank "
                                        "needs the same number",
                                        rank, layout_.rank)
                          : fmt::format("rank {} failed", rank)};
    }
  }

  /** Enqueues an all-to-all each for lengths, ids and weights. If one throws, the group has failed.
   */
  void exchange_side(std::size_t number) {
    Way& way = sides_[number];
    Counts lengths_to;
    for (const auto& slots : layout_.sides[number].slots) {
      lengths_to.push_back(slots.size() * batch_);
    }
    const Counts& ids_to = ids_to_[number];
    exchange({way.sent.lengths, lengths_to}, {way.received->lengths, way.lengths_from},
             bytes_of(way.like.length_type));
    exchange({way.sent.values, ids_to}, {way.received->values, way.ids_from},
             bytes_of(way.like.value_type));
    if (way.like.weighted) {
      exchange({way.sent.weights, ids_to}, {way.received->weights, way.ids_from}, sizeof(float));
    }
    way.sent = {};
    way.outgoing.reset();
  }

  /** The elements for each rank, or from each rank. */
  struct Parts {
    const BatchTensor& all;
    const Counts& counts;
  };

  void exchange(const Parts& to, const Parts& from, std::size_t element) {
    std::vector<SentBytes> sends;
    std::vector<ReceivedBytes> receives;
    std::size_t sent = 0, received = 0;
    for (unsigned peer = 0; peer < layout_.ranks; ++peer) {
      const std::size_t out = to.counts[peer] * element, in = from.counts[peer] * element;
      sends.push_back({to.all.slice(sent, out).data(), out});
      receives.push_back({from.all.slice(received, in).data(), in});
      sent += out;
      received += in;
    }
    exchange_.group_.all_to_all(sends, receives, stream_);
  }

  /** Reorders received data, which are by rank and then slot, to be by slot and then rank. */
  KeyedJaggedTensor arranged(std::size_t number) {
    Way& way = sides_[number];
    const std::vector<Slot>& slots = layout_.sides[number].slots[layout_.rank];
    if (slots.empty()) return {};
    JaggedLayout layout{.keys = make_keys(names(slots)),
                        .batch_size = sum(examples_),
                        .counts = {},
                        .weighted = way.like.weighted,
                        .value_type = way.like.value_type,
                        .length_type = way.like.length_type};
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      std::size_t ids = 0;
      for (const Counts& from : way.counts) ids += from[slot];
      layout.counts.push_back(ids);
    }
    const auto room = [&](std::size_t bytes) {
      return BatchTensor{exchange_.context_.allocator(), bytes, stream_, exchange_.tag_};
    };
    KeyedJaggedTensor::Tensors to{.values = room(layout.value_bytes()),
                                  .lengths = room(layout.length_bytes()),
                                  .offsets = {},
                                  .weights = room(layout.weight_bytes())};
    SegmentCopy copy{
        .name = "to the tables' order",
        .sources = {way.received->lengths, way.received->values, way.received->weights},
        .targets = {to.lengths, to.values, to.weights},
        .segments = {}};
    add_segments(copy, way, layout);
    std::move(copy).launch(scope());
    return from_lengths(scope(), layout, std::move(to));
  }

  void add_segments(SegmentCopy& copy, const Way& way, const JaggedLayout& layout) const {
    const std::size_t length = bytes_of(layout.length_type), id = bytes_of(layout.value_type);
    const std::size_t slots = layout.counts.size();
    std::size_t bags = 0, ids = 0;  // number of bags and ids that are in place
    for (std::size_t slot = 0; slot < slots; ++slot) {
      std::size_t bags_before = 0, ids_before = 0;  // bags and ids of the ranks before
      for (unsigned from = 0; from < layout_.ranks; ++from) {
        const Counts& counts = way.counts[from];
        const std::size_t count = counts[slot];
        const std::size_t at =
            ids_before + std::accumulate(counts.begin(),
                                         counts.begin() + static_cast<std::ptrdiff_t>(slot),
                                         std::size_t{0});
        copy.segments.push_back({0, (bags_before + slot * examples_[from]) * length, 0,
                                 bags * length, examples_[from] * length});
        copy.segments.push_back({1, at * id, 1, ids * id, count * id});
        if (layout.weighted) {
          copy.segments.push_back(
              {2, at * sizeof(float), 2, ids * sizeof(float), count * sizeof(float)});
        }
        bags += examples_[from];
        ids += count;
        bags_before += slots * examples_[from];
        ids_before += sum(counts);
      }
    }
  }

  ShardedExchange& exchange_;
  const Layout& layout_;
  Stream& stream_;
  const std::size_t batch_;
  std::array<Way, 2> sides_;
  std::array<Counts, 2> ids_to_;  ///< ids to send, by side and rank
  std::unique_ptr<PendingSizes> sizes_;
  std::optional<std::vector<RankState>> known_;  ///< states that arrived with the sizes
  Counts examples_;                              ///< number of examples of each rank
};

ShardedExchange::ShardedExchange(ModelContext& context, std::shared_ptr<const Layout> layout,
                                 ProcessGroup& group)
    : context_(context),
      layout_(std::move(layout)),
      group_(group),
      // The number of examples, then the ids of each slot. All ranks send blocks of one size.
      width_(1 + most_slots(*layout_)),
      tag_(context.allocator().tag("features")),
      pinned_(std::make_shared<PinnedPool>(context.allocator().device())) {}

std::unique_ptr<FeatureExchange> ShardedExchange::start(const InputTensors& input, Stream& stream) {
  return std::make_unique<Flight>(*this, input, stream);
}

void ShardedExchange::exhausted() {
  // Answers the sizes that a rank with a batch sends: both ranks learn of the difference, and
  // neither waits.
  const std::vector<std::int64_t> nothing(layout_->ranks * width_);
  const ExchangedSizes sizes = group_.exchange_sizes(RankState::exhausted, nothing);
  for (unsigned rank = 0; rank < layout_->ranks; ++rank) {
    if (sizes.states[rank] == RankState::exhausted) continue;
    throw CollectiveError{
        layout_->rank, fmt::format("rank {} has no more batches, but rank {} has: every rank needs "
                                   "the same number",
                                   layout_->rank, rank)};
  }
}

void ShardedExchange::left_out(const std::exception& why) noexcept {
  // The other ranks know it, too.
  const bool known = dynamic_cast<const CollectiveError*>(&why) != nullptr;
  if (layout_->ranks > 1 && !known) group_.fail(why.what());
}

}  // namespace millrace::sharding
