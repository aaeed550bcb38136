#include "schedule/sparse_exchange.hpp"

#include <utility>

namespace millrace {
namespace {

// Of the batch's tensors, in the order in which they are copied.
constexpr std::size_t kFirstSparse = 1;

std::vector<View> both(std::vector<View> views, const std::vector<View>& more) {
  views.insert(views.end(), more.begin(), more.end());
  return views;
}

}  // namespace

std::size_t SparseFeatures::bytes() const noexcept {
  std::size_t sum = 0;
  for (const Buffer& tensor : tensors) sum += tensor.size();
  return sum;
}

std::vector<View> SparseFeatures::views(Access access) const {
  std::vector<View> views;
  for (const Buffer& tensor : tensors) views.push_back({tensor.data(), tensor.size(), access});
  return views;
}

void SparseFeatures::record_use(StreamRef user) {
  for (Buffer& tensor : tensors) tensor.record_use(user);
}

void SparseFeatures::reset() {
  for (Buffer& tensor : tensors) tensor.reset();
}

SparseExchange::SparseExchange(LoopWork& work, const Workload& workload, Stream& stream,
                               Waits waits)
    : work_(work),
      workload_(workload),
      stream_(stream),
      waits_(waits),
      tag_(work.setting().allocator.tag("features")) {}

SparseFeatures SparseExchange::allocate(const BatchSizes& sizes) {
  const std::vector<std::size_t> bytes = sizes.tensors();
  SparseFeatures features;
  for (std::size_t i = 0; i < SparseFeatures::kTensors; ++i) {
    features.tensors[i] = work_.allocate(bytes[kFirstSparse + i], stream_, tag_);
  }
  return features;
}

Cost SparseExchange::link(std::size_t bytes) const {
  const double others =
      static_cast<double>(workload_.world_size - 1) / static_cast<double>(workload_.world_size);
  const double microseconds =
      static_cast<double>(bytes) * others / (workload_.exchange_gb_per_s * 1e3);
  Cost cost;
  cost.fixed = Nanoseconds{
      static_cast<Nanoseconds::rep>((workload_.exchange_latency_us + microseconds) * 1e3)};
  return cost;
}

void SparseExchange::start(BatchInFlight& flight) {
  flight.batch.hand_to(stream_);
  std::vector<View> sources;
  for (std::size_t i = 0; i < SparseFeatures::kTensors; ++i) {
    sources.push_back(reads(flight.batch.tensors()[kFirstSparse + i]));
  }
  flight.permuted = allocate(flight.sizes);
  Cost cost;
  cost.bytes = 2.0 * static_cast<double>(flight.permuted.bytes());
  work_.launch(stream_, "permute", cost, both(sources, flight.permuted.views(Access::write)));

  const std::size_t bytes = SparseFeatures::kTensors * workload_.world_size * sizeof(std::int64_t);
  flight.exchange_sizes = work_.allocate(bytes, stream_, tag_);
  work_.launch(stream_, "exchange sizes", link(bytes), {updates(flight.exchange_sizes)});
  flight.host_sizes = HostBatch{work_.setting().pinned, std::array{bytes}, stream_};
  stream_.device().device().copy(flight.host_sizes.tensors()[0].data, flight.exchange_sizes.data(),
                                 bytes, CopyKind::device_to_host, stream_.handle());
  stream_.device().record(flight.sizes_known, stream_);
}

void SparseExchange::exchange(BatchInFlight& flight, bool block) {
  if (block && waits_ == Waits::precise) stream_.device().synchronize(flight.sizes_known);
  if (block && waits_ == Waits::coarse) stream_.synchronize();
  flight.host_sizes.release(flight.sizes_known.point());
  flight.exchange_sizes.reset();

  flight.received = allocate(flight.sizes);
  work_.launch(stream_, "exchange features", link(flight.received.bytes()),
               both(flight.permuted.views(Access::read), flight.received.views(Access::write)));
}

void SparseExchange::arrange(BatchInFlight& flight) {
  flight.arranged = allocate(flight.sizes);
  Cost cost;
  cost.bytes = 2.0 * static_cast<double>(flight.arranged.bytes());
  work_.launch(stream_, "arrange features", cost,
               both(flight.received.views(Access::read), flight.arranged.views(Access::write)));
  flight.received.reset();
  flight.permuted.reset();
  if (waits_ == Waits::precise) stream_.device().record(flight.ready, stream_);
}

}  // namespace millrace
