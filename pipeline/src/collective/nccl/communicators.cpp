#include "collective/nccl/communicators.hpp"

#include <fmt/format.h>

#include <exception>
#include <span>
#include <utility>

#include "millrace/device/cuda_calls.hpp"

namespace millrace::collective {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLookAgain = std::chrono::milliseconds{20};
constexpr auto kHangs = std::chrono::seconds{1};  // a call that takes longer waits for a peer

/**
 * Makes the GPU current first. NCCL makes its device current and then restores the previous one; on
 * a thread without a current device that would be GPU 0, which would get a context.
 */
struct OnGpu {
  explicit OnGpu(int gpu) noexcept {
    try {
      current.emplace(gpu);
    } catch (const DeviceError&) {  // the GPU is lost; the NCCL call will report it
    }
  }
  std::optional<CurrentGpu> current;
};

}  // namespace

NcclCommunicators::NcclCommunicators(const NcclApi& api, Device& device, int gpu,
                                     Rendezvous& rendezvous, std::chrono::milliseconds time_out)
    : api_(api),
      device_(device),
      gpu_(gpu),
      rendezvous_(rendezvous),
      time_out_(time_out),
      looks_after_([this] { look_after(); }) {}

// Aborting has already destroyed aborted communicators. Destroying one waits for its operations and
// for the other ranks, so each rank destroys them in the order in which all ranks made them.
NcclCommunicators::~NcclCommunicators() {
  {
    const std::lock_guard lock{mutex_};
    ending_ = true;
  }
  looks_after_.join();
  try {
    const CurrentGpu current{gpu_};
    for (const auto& each : communicators_) {
      if (each->aborted) continue;
      for (void* const handle : each->handles) api_.comm_deregister(each->comm, handle);
    }
    for (const auto& each : communicators_) {
      if (!each->aborted) api_.comm_destroy(each->comm);
    }
    for (const auto& each : communicators_) {
      for (const UnderWay& operation : each->under_way) device_.destroy_event(operation.end);
    }
  } catch (const DeviceError&) {  // the device is lost
  }
}

NcclCommunicators::Use::Use(NcclCommunicators& of_rank, StreamHandle stream)
    : all(of_rank), of(of_rank.enter(stream)) {}

NcclCommunicators::Use::~Use() { all.leave(of); }

NcclCommunicators::Communicator& NcclCommunicators::enter(StreamHandle stream) {
  const std::uint64_t id = device_.stream_id(stream);
  const auto use = [&](Communicator& communicator) -> Communicator& {
    order_after_last(communicator, stream);
    communicator.in_use = true;
    return communicator;
  };
  {
    const std::lock_guard lock{mutex_};
    throw_failure();
    for (const auto& each : communicators_) {
      if (each->stream_id == id) return use(*each);
    }
  }
  // Without the lock: making a communicator waits for all ranks, and the watching thread must be
  // able to receive a failure meanwhile.
  const NcclApi::Comm made = make(stream);
  const std::lock_guard lock{mutex_};
  Communicator& communicator = *communicators_.emplace_back(std::make_unique<Communicator>());
  communicator.comm = made;
  communicator.stream_id = id;
  // The watching thread did not know this communicator when it aborted the others.
  if (failure_) abort(communicator);
  throw_failure();
  for (const Registered& memory : registered_) register_with(communicator, memory);
  return use(communicator);
}

// NCCL requires its device to be current. While an operation is launched, it is.
NcclApi::Comm NcclCommunicators::make(StreamHandle stream) {
  NcclApi::UniqueId id{};
  if (rendezvous_.rank() == 0) api_.check(api_.get_unique_id(&id), "ncclGetUniqueId");
  rendezvous_.share(std::as_writable_bytes(std::span{id.bytes}));
  NcclApi::Comm made = nullptr;
  Operation make;
  make.name = "make a communicator";
  make.cuda = [&](void*) {
    api_.check(api_.comm_init_rank(&made, static_cast<int>(rendezvous_.size()), id,
                                   static_cast<int>(rendezvous_.rank())),
               "ncclCommInitRank");
  };
  device_.launch(std::move(make), stream);
  return made;
}

void NcclCommunicators::leave(Communicator& communicator) {
  const std::lock_guard lock{mutex_};
  communicator.in_use = false;
  if (failure_) abort(communicator);
}

// Call it with the lock. If NCCL does not order launches itself, makes the stream wait for the
// previous launch.
void NcclCommunicators::order_after_last(Communicator& communicator, StreamHandle stream) {
  Communicator* const last = std::exchange(last_, &communicator);
  if (api_.ordered_launches || last == nullptr || last == &communicator) return;
  if (!last->under_way.empty()) device_.wait(stream, last->under_way.back().end);
}

void NcclCommunicators::register_memory(void* data, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  throw_failure();
  registered_.push_back({data, bytes});
  for (const auto& each : communicators_) register_with(*each, registered_.back());
}

void NcclCommunicators::register_with(Communicator& communicator, const Registered& memory) {
  if (api_.comm_register == nullptr || api_.comm_deregister == nullptr) return;
  void* handle = nullptr;
  api_.check(api_.comm_register(communicator.comm, memory.data, memory.bytes, &handle),
             "ncclCommRegister");
  if (handle != nullptr) communicator.handles.push_back(handle);
}

void NcclCommunicators::watch(Communicator& communicator, const std::string& name,
                              StreamHandle stream) {
  // Marks the end of the operation. With it, `look` finds an operation that never ends.
  const EventHandle end = device_.create_event();
  device_.record(end, stream);
  const std::lock_guard lock{mutex_};
  communicator.under_way.push_back({name, end, Clock::now()});
  throw_failure();
}

void NcclCommunicators::look_after() {
  const OnGpu current{gpu_};
  for (;;) {
    {
      const std::lock_guard lock{mutex_};
      if (ending_) return;
      try {
        look();
      } catch (const std::exception& error) {
        abort_all({rendezvous_.rank(),
                   fmt::format("rank {} failed: {}", rendezvous_.rank(), error.what())});
      }
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

// Call it with the lock.
void NcclCommunicators::look() {
  if (failure_) return abort_those_that_hang();
  if (auto heard = rendezvous_.failure()) return abort_all(std::move(*heard));
  for (const auto& each : communicators_) {
    int error = NcclApi::kSuccess;
    api_.check(api_.comm_get_async_error(each->comm, &error), "ncclCommGetAsyncError");
    api_.check(error, "NCCL, on the device");
  }
  for (const auto& each : communicators_) look_at_operations(each->under_way);
}

void NcclCommunicators::look_at_operations(std::deque<UnderWay>& operations) {
  while (!operations.empty() && device_.query(operations.front().end)) {
    device_.destroy_event(operations.front().end);
    operations.pop_front();
    if (!operations.empty()) operations.front().since = Clock::now();
  }
  if (operations.empty() || Clock::now() - operations.front().since < time_out_) return;
  abort_all({rendezvous_.rank(),
             fmt::format("{} of rank {} has not ended within {} ms: a rank has not come to it",
                         operations.front().name, rendezvous_.rank(), time_out_.count())});
}

// Call it with the lock.
void NcclCommunicators::abort(Communicator& communicator) {
  if (std::exchange(communicator.aborted, true)) return;
  const OnGpu current{gpu_};
  api_.comm_abort(communicator.comm);
}

// Call it with the lock. Enqueued operations end without a result. Aborting frees a communicator,
// so one that another thread is about to use is aborted by that thread.
void NcclCommunicators::abort_all(Rendezvous::Failure failure) {
  if (failure_) return;
  failure_ = std::move(failure);
  failed_at_ = Clock::now();
  rendezvous_.report_failure(*failure_);
  for (const auto& each : communicators_) {
    if (!each->in_use) abort(*each);
  }
}

// Call it with the lock. A thread that is still in an NCCL call waits for a rank that never comes;
// only the abort ends that call.
void NcclCommunicators::abort_those_that_hang() {
  if (Clock::now() - failed_at_ < kHangs) return;
  for (const auto& each : communicators_) {
    if (each->in_use) abort(*each);
  }
}

void NcclCommunicators::fail(const std::string& why) noexcept {
  const std::lock_guard lock{mutex_};
  const unsigned rank = rendezvous_.rank();
  abort_all({rank, fmt::format("rank {} failed: {}", rank, why)});
}

void NcclCommunicators::check() {
  const std::lock_guard lock{mutex_};
  look();
  throw_failure();
}

void NcclCommunicators::throw_failure() const {
  if (failure_) throw CollectiveError{failure_->rank, failure_->why};
}

}  // namespace millrace::collective
