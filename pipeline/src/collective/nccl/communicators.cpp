#include "collective/nccl/communicators.hpp"

#include <fmt/format.h>

#include <span>
#include <utility>

namespace millrace::collective {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLookAgain = std::chrono::milliseconds{20};

}  // namespace

NcclCommunicators::NcclCommunicators(const NcclApi& api, Device& device, Rendezvous& rendezvous,
                                     std::chrono::milliseconds time_out)
    : api_(api),
      device_(device),
      rendezvous_(rendezvous),
      time_out_(time_out),
      looks_after_([this] { look_after(); }) {}

// Aborted communicators are gone already; to destroy one waits for what it was given.
NcclCommunicators::~NcclCommunicators() {
  {
    const std::lock_guard lock{mutex_};
    ending_ = true;
  }
  looks_after_.join();
  for (const auto& [comm, handle] : handles_) {
    if (!failure_) api_.comm_deregister(comm, handle);
  }
  for (const auto& [stream, comm] : communicators_) {
    if (!failure_) api_.comm_destroy(comm);
  }
  for (auto& [stream, operations] : under_way_) {
    for (const UnderWay& operation : operations) {
      try {
        device_.destroy_event(operation.end);
      } catch (const DeviceError&) {  // the device is lost
      }
    }
  }
}

// NCCL wants the device to be current: it is while an operation is launched.
NcclApi::Comm NcclCommunicators::communicator(StreamHandle stream) {
  {
    const std::lock_guard lock{mutex_};
    throw_failure();
    if (const auto known = communicators_.find(stream.value); known != communicators_.end()) {
      return known->second;
    }
  }
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
  const std::lock_guard lock{mutex_};
  communicators_[stream.value] = made;
  for (const Registered& memory : registered_) register_with(made, memory);
  return made;
}

void NcclCommunicators::register_memory(void* data, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  throw_failure();
  registered_.push_back({data, bytes});
  for (const auto& [stream, comm] : communicators_) register_with(comm, registered_.back());
}

void NcclCommunicators::register_with(NcclApi::Comm comm, const Registered& memory) {
  if (api_.comm_register == nullptr || api_.comm_deregister == nullptr) return;
  void* handle = nullptr;
  api_.check(api_.comm_register(comm, memory.data, memory.bytes, &handle), "ncclCommRegister");
  if (handle != nullptr) handles_.emplace_back(comm, handle);
}

void NcclCommunicators::watch(const std::string& name, StreamHandle stream) {
  const EventHandle end = device_.create_event();
  device_.record(end, stream);
  const std::lock_guard lock{mutex_};
  under_way_[stream.value].push_back({name, end, Clock::now()});
}

void NcclCommunicators::look_after() {
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

// With the lock.
void NcclCommunicators::look() {
  if (failure_) return;
  if (auto heard = rendezvous_.failure()) return abort_all(std::move(*heard));
  for (const auto& [stream, comm] : communicators_) {
    int error = NcclApi::kSuccess;
    api_.check(api_.comm_get_async_error(comm, &error), "ncclCommGetAsyncError");
    api_.check(error, "NCCL, on the device");
  }
  for (auto& [stream, operations] : under_way_) look_at_operations(operations);
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

// With the lock. What was enqueued ends without a result.
void NcclCommunicators::abort_all(Rendezvous::Failure failure) {
  if (failure_) return;
  failure_ = std::move(failure);
  rendezvous_.tell_failure(*failure_);
  for (const auto& [stream, comm] : communicators_) api_.comm_abort(comm);
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
