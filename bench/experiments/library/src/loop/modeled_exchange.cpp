#include "loop/modeled_exchange.hpp"

#include <array>
#include <utility>
#include <vector>

#include "millrace/pipeline/data/host_batch.hpp"

namespace millrace::experiment {
namespace {

/** The tensors that ranks exchange: values and lengths of both kinds of features, and weights.
 * Offsets are computed from the lengths and not exchanged. */
constexpr std::size_t kExchanged = 5;
using Exchanged = std::array<BatchTensor, kExchanged>;

Exchanged exchanged(const KeyedJaggedTensor& sparse, const KeyedJaggedTensor& weighted) {
  return {sparse.values(), sparse.lengths(), weighted.values(), weighted.lengths(),
          weighted.weights()};
}

std::size_t bytes_of(const Exchanged& tensors) {
  std::size_t sum = 0;
  for (const BatchTensor& tensor : tensors) sum += tensor.bytes();
  return sum;
}

std::vector<View> views(const Exchanged& from, const Exchanged& to) {
  std::vector<View> views;
  for (const BatchTensor& tensor : from) views.push_back(reads(tensor));
  for (const BatchTensor& tensor : to) views.push_back(writes(tensor));
  return views;
}

}  // namespace

class ModeledExchange::Flight final : public FeatureExchange {
 public:
  Flight(const ModeledExchange& exchange, const InputTensors& input, Stream& stream)
      : work_(exchange.work_),
        workload_(exchange.workload_),
        tag_(exchange.tag_),
        stream_(stream),
        sparse_(input.sparse.layout()),
        weighted_(input.weighted.layout()) {
    permute(exchanged(input.sparse, input.weighted));
    exchange_sizes();
  }

  void receive(Waits waits) override {
    const bool others = workload_.world_size > 1;
    if (others && waits == Waits::precise) stream_.device().synchronize(sizes_known_);
    if (others && waits == Waits::coarse) stream_.synchronize();
    host_sizes_.release(sizes_known_.point());
    sizes_.reset();

    received_ = room();
    work_.launch(stream_, "exchange features", link_cost(workload_, bytes_of(received_)),
                 views(permuted_, received_));
  }

  void clear_inputs() override { permuted_ = {}; }

  SparseFeatures arrange() override {
    const Exchanged to = room();
    SparseFeatures features{jagged(sparse_, to[0], to[1], {}),
                            jagged(weighted_, to[2], to[3], to[4])};
    Cost cost;
    cost.bytes = 2.0 * static_cast<double>(bytes_of(to));
    work_.launch(stream_, "arrange features", cost, views(received_, to));
    sum(features.unweighted);
    sum(features.weighted);
    received_ = {};
    permuted_ = {};
    return features;
  }

 private:
  [[nodiscard]] BatchTensor allocate(std::size_t bytes) const {
    return {work_.setting().allocator, bytes, stream_, tag_};
  }

  [[nodiscard]] Exchanged room() const {
    return {allocate(sparse_.value_bytes()), allocate(sparse_.length_bytes()),
            allocate(weighted_.value_bytes()), allocate(weighted_.length_bytes()),
            allocate(weighted_.weight_bytes())};
  }

  [[nodiscard]] KeyedJaggedTensor jagged(const JaggedLayout& layout, const BatchTensor& values,
                                         const BatchTensor& lengths,
                                         const BatchTensor& weights) const {
    return {layout,
            {.values = values,
             .lengths = lengths,
             .offsets = allocate(layout.offset_bytes()),
             .weights = weights}};
  }

  void sum(const KeyedJaggedTensor& features) {
    if (features.empty()) return;
    Cost cost;
    cost.bytes = 2.0 * static_cast<double>(features.lengths().bytes());
    work_.launch(stream_, "offsets", cost, {reads(features.lengths()), writes(features.offsets())});
  }

  void permute(const Exchanged& input) {
    permuted_ = room();
    Cost cost;
    cost.bytes = 2.0 * static_cast<double>(bytes_of(permuted_));
    work_.launch(stream_, "permute", cost, views(input, permuted_));
  }

  void exchange_sizes() {
    const std::size_t bytes = kExchanged * workload_.world_size * sizeof(std::int64_t);
    sizes_ = work_.allocate(bytes, stream_, tag_);
    work_.launch(stream_, "exchange sizes", link_cost(workload_, bytes), {updates(sizes_)});
    host_sizes_ = HostBatch{work_.setting().pinned, std::array{bytes}, stream_};
    stream_.device().device().copy(host_sizes_.tensors()[0].data, sizes_.data(), bytes,
                                   CopyKind::device_to_host, stream_.handle());
    stream_.device().record(sizes_known_, stream_);
  }

  LoopWork& work_;
  const Workload& workload_;
  const Tag tag_;
  Stream& stream_;
  const JaggedLayout sparse_, weighted_;
  Exchanged permuted_, received_;
  Buffer sizes_;
  HostBatch host_sizes_;
  Event sizes_known_;
};

Cost link_cost(const Workload& workload, std::size_t bytes) {
  const double others =
      static_cast<double>(workload.world_size - 1) / static_cast<double>(workload.world_size);
  const double microseconds = static_cast<double>(bytes) * others /
                              (workload.exchange_gb_per_s.value_or(kExchangeGbPerS) * 1e3);
  Cost cost;
  cost.fixed = Nanoseconds{
      static_cast<Nanoseconds::rep>((workload.exchange_latency_us + microseconds) * 1e3)};
  return cost;
}

std::unique_ptr<FeatureExchange> ModeledExchange::start(const InputTensors& input, Stream& stream) {
  return std::make_unique<Flight>(*this, input, stream);
}

}  // namespace millrace::experiment
