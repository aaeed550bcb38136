#include "millrace/interop/torch_memory.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "interop/default_memory.hpp"
#include "interop/forks.hpp"
#include "interop/torch/booked_source.hpp"
#include "interop/torch/pools.hpp"
#include "interop/torch/torch_registry.hpp"
#include "millrace/device/cuda_device.hpp"

namespace millrace {

struct TorchMemory::State {
  State(Device& on, int id, const TorchSettings& with)
      : device(on),
        device_id(id),
        settings(with),
        book(with.policy.max_split),
        plain_source(on),
        source(plain_source, book, {}, with.policy.small_segment),
        owned(std::make_unique<DeviceMemory>(
            on, id, DeviceMemory::Options{.policy = with.policy, .source = &source})),
        memory(*owned),
        pools(memory.device(), book, with.policy, [this] { return give_back(); }) {
    memory.caching().on_out_of_memory([this](std::size_t) { return give_back() != 0; });
    set_fraction(with.fraction);
  }

  void require_process() const {
    if (forks() == forks_before) return;
    throw DeviceError{ErrorCode::device_lost, "TorchMemory",
                      "this process was forked from one that uses CUDA; CUDA works again in a "
                      "program that exec starts"};
  }

  void set_fraction(double part) {
    const auto total = static_cast<double>(device.memory_info().total);
    const std::size_t limit = part < 1 ? static_cast<std::size_t>(part * total) : 0;
    book.set_limit(limit);
    memory.caching().set_limit(limit);
    fraction = part;
  }

  // Releases the free memory of all pools. A capture may forbid it; the memory then stays.
  std::size_t give_back() {
    std::size_t bytes = trimmed(memory);
    for (const auto& pool : pools.all()) bytes += trimmed(pool->allocator());
    const std::size_t before = reserved();
    pools.end_unused();
    const std::size_t after = reserved();
    book.count_sync();
    return bytes + (before - std::min(before, after));
  }

  [[nodiscard]] std::size_t reserved() const {
    return static_cast<std::size_t>(book.statistics().reserved_bytes.all.current);
  }

  static std::size_t trimmed(Allocator& allocator) {
    try {
      return allocator.trim();
    } catch (const DeviceError&) {
      return 0;
    }
  }

  [[nodiscard]] std::int64_t retries() {
    std::uint64_t count = memory.statistics().counts.retries;
    for (const auto& pool : pools.all()) count += pool->caching().statistics().counts.retries;
    return static_cast<std::int64_t>(count);
  }

  Device& device;
  const int device_id;
  const TorchSettings settings;
  torch::Book book;
  DeviceSource plain_source;
  torch::BookedSource source;
  std::unique_ptr<DeviceMemory> owned;  // null if the memory is the process's default
  DeviceMemory& memory;
  torch::Pools pools;
  std::atomic<double> fraction{1};
  std::atomic<std::int64_t> retries_before{0};  // retries before the last reset of sums
  const std::uint32_t forks_before = forks();
};

TorchMemory::TorchMemory(Device& device, int device_id, const TorchSettings& settings)
    : state_(std::make_unique<State>(device, device_id, settings)) {
  torch::registry().add(*this);
}

TorchMemory::~TorchMemory() {
  torch::registry().remove(*this);
  // In a forked child, threads that do not exist there may hold locks.
  if (forks() != state_->forks_before) static_cast<void>(state_.release());
}

TorchMemory& TorchMemory::of(int device_id) {
  torch::Registry& registry = torch::registry();
  if (TorchMemory* const known = registry.find(device_id)) return *known;
  const TorchSettings settings = TorchSettings::from_environment();
  // The device must outlive the memory, and neither is destroyed when the process ends.
  auto device = CudaDevice::create(device_id);
  auto made = std::make_unique<TorchMemory>(*device, device_id, settings);
  if (TorchMemory* const faster = registry.keep(device_id, *made)) return *faster;
  adopt_default_memory(made->state_->owned);
  static_cast<void>(device.release());
  return *made.release();
}

TorchMemory* TorchMemory::holding(const void* address) {
  return torch::registry().find(
      [&](const TorchMemory& each) { return each.state_->book.holds(address); });
}

std::vector<TorchMemory*> TorchMemory::all() { return torch::registry().all(); }

int TorchMemory::device_id() const noexcept { return state_->device_id; }
DeviceMemory& TorchMemory::memory() const noexcept { return state_->memory; }
const TorchSettings& TorchMemory::settings() const noexcept { return state_->settings; }

void* TorchMemory::allocate(std::size_t bytes, Stream stream, std::shared_ptr<void> context) {
  if (bytes == 0) return nullptr;
  state_->require_process();
  const Policy& policy = state_->settings.policy;
  torch::Pools::Routed routed = state_->pools.find(stream.handle);
  torch::Book::Live live{.bytes = policy.round(bytes),
                         .requested = bytes,
                         .stream = stream.handle,
                         .stream_stays = stream.stays,
                         .small = bytes <= policy.small_limit,
                         .pool = routed.id,
                         .owner = routed.pool,
                         .context = std::move(context)};
  Allocator& from = routed.pool == nullptr ? state_->memory : routed.pool->allocator();
  const torch::Book::CauseScope cause{{stream.handle, live.small, live.context}};
  try {
    void* const address = from.allocate(bytes, StreamRef{plain_stream(stream.handle)});
    state_->book.add_block(address, std::move(live));
    return address;
  } catch (const out_of_memory&) {
    state_->book.count_out_of_memory(bytes, state_->device.memory_info().free, live);
    throw;
  }
}

void TorchMemory::deallocate(void* address, std::shared_ptr<void> context) {
  if (address == nullptr || forks() != state_->forks_before) return;
  const auto live = state_->book.remove_block(address, std::move(context));
  if (!live) {
    throw std::invalid_argument{"deallocate: not a live allocation of PyTorch's on GPU " +
                                std::to_string(state_->device_id)};
  }
  auto* const pool = static_cast<torch::Pool*>(live->owner.get());
  Allocator& from = pool == nullptr ? state_->memory : pool->allocator();
  if (!live->stream_stays) return from.deallocate(address);
  try {
    from.deallocate(address, StreamRef{plain_stream(live->stream)});
  } catch (const DeviceError&) {  // the driver refuses the stream, for example in a host callback
    from.deallocate(address);
  }
}

void TorchMemory::record_use(void* address, CUstream_st* stream) {
  if (address == nullptr) return;
  state_->require_process();
  const auto live = state_->book.find(address);
  if (!live) {
    throw std::invalid_argument{"record_use: not a live allocation of PyTorch's on GPU " +
                                std::to_string(state_->device_id)};
  }
  auto* const pool = static_cast<torch::Pool*>(live->owner.get());
  Allocator& from = pool == nullptr ? state_->memory : pool->allocator();
  from.record_use(address, StreamRef{plain_stream(stream)});
}

std::shared_ptr<void> TorchMemory::context(const void* address) const {
  const auto live = state_->book.find(address);
  return live ? live->context : nullptr;
}

bool TorchMemory::annotate(const void* address, std::shared_ptr<void> context) {
  return state_->book.annotate(address, std::move(context));
}

std::pair<void*, std::size_t> TorchMemory::segment_of(const void* address) const {
  return state_->book.segment_of(address);
}

void TorchMemory::allow_peer(int device_id) {
  auto* const cuda = dynamic_cast<CudaDevice*>(&state_->device);
  if (cuda == nullptr) {
    throw DeviceError{ErrorCode::not_supported, "allow_peer", "this device has no peers"};
  }
  cuda->allow_peer(device_id);
}

void TorchMemory::set_fraction(double fraction) {
  if (!(fraction > 0 && fraction <= 1)) {
    throw std::invalid_argument{"a fraction of memory is above 0 and at most 1"};
  }
  state_->set_fraction(fraction);
}

double TorchMemory::fraction() const { return state_->fraction; }

std::size_t TorchMemory::trim(TorchPoolId id) {
  state_->require_process();
  if (id == TorchPoolId{}) return state_->give_back();
  std::size_t bytes = 0;
  if (const auto pool = state_->pools.find(id)) bytes = State::trimmed(pool->allocator());
  state_->pools.end_unused();
  return bytes;
}

void TorchMemory::use_pool(TorchPoolId pool, std::shared_ptr<SegmentSource> source) {
  state_->pools.use(pool, std::move(source));
}

void TorchMemory::release_pool(TorchPoolId pool) { state_->pools.release(pool); }
int TorchMemory::pool_uses(TorchPoolId pool) const { return state_->pools.uses(pool); }
void TorchMemory::set_no_split(TorchPoolId pool) { state_->pools.set_no_split(pool); }

bool TorchMemory::pool_holds_only(TorchPoolId pool,
                                  const std::unordered_set<void*>& addresses) const {
  return state_->book.live_blocks_are(pool, addresses);
}

void TorchMemory::begin_route(TorchPoolId pool, CUstream_st* origin, Filter filter) {
  state_->require_process();
  static_cast<void>(state_->memory.device().resolve(StreamRef{plain_stream(origin)}));
  state_->pools.begin_route(pool, std::move(filter));
}

void TorchMemory::end_route(TorchPoolId pool) { state_->pools.end_route(pool); }

TorchStatistics TorchMemory::statistics() {
  TorchStatistics all = state_->book.statistics();
  all.alloc_retries = state_->retries() - state_->retries_before;
  return all;
}

void TorchMemory::reset_peaks() { state_->book.reset_peaks(); }

void TorchMemory::reset_sums() {
  state_->book.reset_sums();
  state_->retries_before = state_->retries();
}

void TorchMemory::set_history(const TorchHistory& history, bool clears) {
  state_->book.set_history(history, clears);
}

void TorchMemory::track(Tracker tracker) { state_->book.track(std::move(tracker)); }
std::vector<TorchTraceEntry> TorchMemory::trace() const { return state_->book.trace(); }

std::vector<TorchSegment> TorchMemory::segments(TorchPoolId pool) const {
  return state_->book.segments(pool);
}

}  // namespace millrace
