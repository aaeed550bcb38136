#include "millrace/pipeline/data/copy_strategy.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "data/ring_copy.hpp"

namespace millrace {
namespace {

/** Strategies that allocate memory for each batch. They differ in the owner of the memory. */
class FreshCopy : public CopyStrategy {
 public:
  explicit FreshCopy(const CopyEnvironment& environment) : CopyStrategy(environment) {}

 protected:
  void allocate(std::span<const HostTensor> sources, const Parts& batch, StreamRef owner,
                StreamRef first_user) {
    batch.memory.reserve(sources.size());
    for (const HostTensor& source : sources) {
      const Buffer& buffer = batch.memory.emplace_back(environment_.allocator, source.bytes, owner,
                                                       first_user, environment_.tag);
      batch.tensors.push_back({buffer.data(), source.bytes});
    }
  }

  void use(const Parts& batch, StreamRef user) override {
    for (Buffer& buffer : batch.memory) buffer.record_use(user);
  }

  void give_back(const Parts& batch) override {
    for (Buffer& buffer : batch.memory) free(batch, buffer);
    batch.memory.clear();
  }

  void give_back(const Parts& batch, std::size_t first, std::size_t count) override {
    for (std::size_t i = first; i < first + count; ++i) free(batch, batch.memory[i]);
  }

  virtual void free(const Parts&, Buffer& buffer) { buffer.reset(); }
};

// The usual way in PyTorch: memory of the copy stream, recorded as used on main. Only the copy
// stream can reuse it without a wait.
class SideStreamCopy final : public FreshCopy {
 public:
  using FreshCopy::FreshCopy;

 private:
  void place(std::span<const HostTensor> sources, const Parts& batch) override {
    allocate(sources, batch, environment_.copy, environment_.copy);
  }
};

class InPlaceCopy final : public FreshCopy {
 public:
  using FreshCopy::FreshCopy;

 private:
  void place(std::span<const HostTensor> sources, const Parts& batch) override {
    allocate(sources, batch, environment_.main, environment_.main);
    // The memory belongs to main, whose enqueued work may still use it.
    environment_.copy.wait_stream(environment_.main);
  }

  // The free is ordered on main, which covers the copy only once main has waited for it.
  void free(const Parts& batch, Buffer& buffer) override {
    if (!batch.main_waited) buffer.record_use(environment_.copy);
    buffer.reset();
  }
};

class PreciseCopy final : public FreshCopy {
 public:
  using FreshCopy::FreshCopy;

 private:
  void place(std::span<const HostTensor> sources, const Parts& batch) override {
    // Memory of main that the copy stream uses first: the allocator makes the copy wait for the
    // last use of this block, and for no other work on main.
    allocate(sources, batch, environment_.main, environment_.copy);
  }

  void free(const Parts& batch, Buffer& buffer) override {
    if (batch.last_used.stream.valid()) {
      buffer.reset(batch.last_used);
    } else {
      buffer.reset();
    }
  }
};

class DriverAsyncCopy final : public FreshCopy {
 public:
  using FreshCopy::FreshCopy;

 private:
  void place(std::span<const HostTensor> sources, const Parts& batch) override {
    allocate(sources, batch, environment_.copy, environment_.copy);
  }

  void free(const Parts& batch, Buffer& buffer) override {
    // The pool orders a free on one stream: on main, if main is ordered after the copy.
    if (batch.main_waited) {
      buffer.reset(environment_.main);
    } else {
      buffer.reset();
    }
  }
};

/** @brief The class of each row of `kCopyStrategies`. */
template <CopyMethod method>
struct ClassOf;
template <>
struct ClassOf<CopyMethod::side_stream> : std::type_identity<SideStreamCopy> {};
template <>
struct ClassOf<CopyMethod::in_place> : std::type_identity<InPlaceCopy> {};
template <>
struct ClassOf<CopyMethod::precise> : std::type_identity<PreciseCopy> {};
template <>
struct ClassOf<CopyMethod::ring> : std::type_identity<RingCopy> {};
template <>
struct ClassOf<CopyMethod::driver_async> : std::type_identity<DriverAsyncCopy> {};

/** @brief Returns true if rows are in the order of their enumerators and have different letters. */
constexpr bool rows_are_valid() {
  for (std::size_t i = 0; i < kCopyStrategies.size(); ++i) {
    if (kCopyStrategies[i].method != static_cast<CopyMethod>(i)) return false;
    for (std::size_t other = 0; other < i; ++other) {
      if (kCopyStrategies[other].letter == kCopyStrategies[i].letter) return false;
    }
  }
  return true;
}
static_assert(rows_are_valid());

constexpr std::array<std::string_view, kWaits.size()> kWaitsNames{"coarse", "precise"};

}  // namespace

std::string_view to_string(CopyMethod method) noexcept { return traits_of(method).name; }

std::string copy_strategy_names() {
  std::string names;
  for (const CopyStrategyTraits& traits : kCopyStrategies) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", traits.name);
  }
  return names;
}

std::string_view to_string(Waits waits) noexcept {
  return kWaitsNames[static_cast<std::size_t>(waits)];
}

std::unique_ptr<CopyStrategy> CopyStrategy::make(CopyMethod method,
                                                 const CopyEnvironment& environment) {
  if (environment.depth == 0) throw std::invalid_argument{"a pipeline holds at least one batch"};
  std::unique_ptr<CopyStrategy> strategy;
  // One comparison for each row of the table: a new strategy needs its row and its class, and no
  // case here.
  const auto make_if = [&]<std::size_t row>() {
    constexpr CopyMethod candidate = kCopyStrategies[row].method;
    if (candidate == method)
      strategy = std::make_unique<typename ClassOf<candidate>::type>(environment);
  };
  [&]<std::size_t... row>(std::index_sequence<row...>) {
    (make_if.template operator()<row>(), ...);
  }
  (std::make_index_sequence<kCopyStrategies.size()>{});
  if (!strategy) throw std::invalid_argument{"unknown copy strategy"};
  return strategy;
}

CopyStrategy::Parts CopyStrategy::parts(DeviceBatch& batch) {
  return {batch.tensors_, batch.memory_, batch.slot_, batch.main_waited_, batch.last_used_};
}

DeviceBatch CopyStrategy::copy(std::span<const HostTensor> tensors) {
  DeviceBatch batch;
  batch.tensors_.reserve(tensors.size());
  place(tensors, parts(batch));
  batch.strategy_ = this;

  Stream& stream = environment_.copy;
  Device& device = stream.device().device();
  if (environment_.observer != nullptr) environment_.observer->copies_begin(stream);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].bytes == 0) continue;
    device.copy(batch.tensors_[i].data, tensors[i].data, tensors[i].bytes, CopyKind::host_to_device,
                stream.handle());
  }
  if (environment_.observer != nullptr) environment_.observer->copies_end(stream);
  // With every strategy: the host may write the pinned memory again after this marker, and users of
  // the batch wait for it.
  stream.device().record(batch.copied_, stream);
  return batch;
}

// Memory whose use could not be recorded stays with its strategy, which does not use it again.
DeviceBatch::~DeviceBatch() {
  try {
    release();
  } catch (const std::exception&) {
  }
}

DeviceBatch::DeviceBatch(DeviceBatch&& other) noexcept
    : strategy_(std::exchange(other.strategy_, nullptr)),
      tensors_(std::move(other.tensors_)),
      memory_(std::move(other.memory_)),
      slot_(other.slot_),
      copied_(std::move(other.copied_)),
      main_waited_(other.main_waited_),
      last_used_(other.last_used_) {}

DeviceBatch& DeviceBatch::operator=(DeviceBatch&& other) noexcept {
  if (this != &other) {
    release();
    strategy_ = std::exchange(other.strategy_, nullptr);
    tensors_ = std::move(other.tensors_);
    memory_ = std::move(other.memory_);
    slot_ = other.slot_;
    copied_ = std::move(other.copied_);
    main_waited_ = other.main_waited_;
    last_used_ = other.last_used_;
  }
  return *this;
}

void DeviceBatch::hand_to(Stream& user) {
  const CopyEnvironment& environment = strategy_->environment_;
  if (environment.waits == Waits::coarse) {
    user.wait_stream(environment.copy);
  } else {
    user.wait(copied_);
  }
  record_use(user);
}

void DeviceBatch::record_use(StreamRef user) {
  const CopyEnvironment& environment = strategy_->environment_;
  main_waited_ = main_waited_ || user.id() == environment.main.id();
  strategy_->use(CopyStrategy::parts(*this), user);
}

void DeviceBatch::release() {
  if (strategy_ == nullptr) return;
  std::exchange(strategy_, nullptr)->give_back(CopyStrategy::parts(*this));
  tensors_.clear();
  memory_.clear();
}

void DeviceBatch::release(std::size_t first, std::size_t count, Point marker) {
  if (strategy_ == nullptr) return;
  CopyStrategy::Parts parts = CopyStrategy::parts(*this);
  parts.last_used = marker;
  strategy_->give_back(parts, first, count);
  for (std::size_t i = first; i < first + count; ++i) tensors_[i] = {};
}

}  // namespace millrace
