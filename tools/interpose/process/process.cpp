#include "process/process.hpp"

#include <pthread.h>

#include <algorithm>
#include <string>

namespace millrace::interpose {

thread_local cudaError_t KeepsLastError::lost = cudaSuccess;

KeepsLastError::~KeepsLastError() {
  const cudaError_t after = real().cudaPeekAtLastError();
  if (after == before_) return;
  if (after != cudaSuccess) static_cast<void>(real().cudaGetLastError());
  if (before_ != cudaSuccess) lost = before_;
}

Process& Process::get() noexcept {
  static Process* const process = new Process;
  return *process;
}

Process::Process() : settings(Settings::read()) {
  pthread_atfork(nullptr, nullptr, [] {
    Process& process = Process::get();
    if (process.has_served_) process.is_child_ = true;
  });
}

Gpu* Process::find(int ordinal) const noexcept {
  if (ordinal < 0 || ordinal >= kMostGpus || is_child()) return nullptr;
  return gpus_[static_cast<std::size_t>(ordinal)].load(std::memory_order_acquire);
}

// A GPU is not opened during a capture: it would not know which streams are captured.
Gpu* Process::serving(int ordinal) {
  if (unannounced_ != 0) return nullptr;
  if (Gpu* const known = find(ordinal)) [[likely]]
    return known;
  if (ordinal < 0 || ordinal >= kMostGpus || is_child() || capturing()) return nullptr;
  return allocator_has_runtime() ? make(ordinal) : nullptr;
}

Gpu* Process::make(int ordinal) {
  const std::lock_guard lock{mutex_};
  if (Gpu* const known = find(ordinal)) return known;
  if (refused_.contains(ordinal)) return nullptr;
  try {
    if (!has_served_.exchange(true) && before_service != nullptr) before_service();
    if (recorder_ == nullptr) recorder_ = new Recorder{settings.record, settings.what_if};
    auto made = std::make_unique<Gpu>(ordinal, settings, *recorder_);
    for (const auto& [user, owner] : peers_) {
      if (owner == ordinal) made->allow_peer(user);
    }
    if (const std::uint64_t bytes = most_kept(ordinal); bytes != 0) made->log().pool_keeps(bytes);
    gpus_[static_cast<std::size_t>(ordinal)] = made.get();
    return made.release();
  } catch (const std::exception& error) {
    refused_.insert(ordinal);
    warn_once(
        ("GPU " + std::to_string(ordinal) +
         " keeps the program's own allocator, because Millrace cannot use it: " + error.what())
            .c_str());
    return nullptr;
  }
}

Gpu* Process::owner_of(const void* address) const {
  if (is_child()) return nullptr;
  for (const std::atomic<Gpu*>& each : gpus_) {
    Gpu* const gpu = each.load(std::memory_order_acquire);
    if (gpu != nullptr && gpu->owns(address)) return gpu;
  }
  return nullptr;
}

std::vector<Gpu*> Process::gpus() const {
  std::vector<Gpu*> all;
  for (const std::atomic<Gpu*>& each : gpus_) {
    if (Gpu* const gpu = each.load(std::memory_order_acquire)) all.push_back(gpu);
  }
  return all;
}

void Process::finish_recording() {
  if (Recorder* const recorder = recorder_.load()) recorder->finish();
}

void Process::forget(int ordinal) {
  Gpu* const gpu = find(ordinal);
  if (gpu == nullptr) return;
  try {
    EndedMemory ended{.figures = figures_of(*gpu), .snapshot = {}};
    ended.figures.was_reset = true;
    if (!settings.snapshot.empty()) ended.snapshot = gpu->memory().snapshot();
    const std::lock_guard lock{mutex_};
    for (EndedMemory& earlier : ended_) {  // a snapshot has the last memory only
      if (earlier.figures.ordinal == ordinal) earlier.snapshot = {};
    }
    if (ended_.size() < kMostEnded) ended_.push_back(std::move(ended));
  } catch (const std::exception&) {  // the report lacks this memory
  }
  gpus_[static_cast<std::size_t>(ordinal)] = nullptr;
  recorder_.load()->writer().device_reset(static_cast<std::uint32_t>(ordinal));
  delete gpu;
}

std::vector<EndedMemory> Process::ended() const {
  const std::lock_guard lock{mutex_};
  return ended_;
}

void Process::enable_peer(int user, int owner) {
  const std::lock_guard lock{mutex_};
  peers_.emplace_back(user, owner);
  if (Gpu* const gpu = find(owner)) gpu->allow_peer(user);
}

void Process::begin_capture(cudaStream_t stream, Gpu* gpu) {
  Capture capture{gpu, std::nullopt};
  ++captures_;
  if (gpu != nullptr) {
    try {
      capture.announced = gpu->order().begin_capture(StreamRef{handle_of(stream)});
    } catch (const std::exception&) {  // for example for the per-thread stream
      ++unannounced_;
    }
  }
  const std::lock_guard lock{mutex_};
  capture_of_.emplace(stream, capture);
}

void Process::end_capture(cudaStream_t stream) {
  Capture capture;
  {
    const std::lock_guard lock{mutex_};
    const auto it = capture_of_.find(stream);
    if (it == capture_of_.end()) return;
    capture = it->second;
    capture_of_.erase(it);
  }
  --captures_;
  if (capture.gpu == nullptr) return;
  if (!capture.announced) {
    --unannounced_;
    return;
  }
  try {
    capture.gpu->order().end_capture(*capture.announced);
  } catch (const DeviceError&) {  // an owed marker failed; a later one covers its work
  }
}

void Process::add_pool(cudaMemPool_t pool, int device) {
  const std::lock_guard lock{mutex_};
  pools_.insert_or_assign(pool, device);
}

void Process::drop_pool(cudaMemPool_t pool) {
  const std::lock_guard lock{mutex_};
  pools_.erase(pool);
  kept_.erase(pool);
}

void Process::set_kept(cudaMemPool_t pool, int device, std::uint64_t bytes) {
  const std::lock_guard lock{mutex_};
  const std::uint64_t before = most_kept(device);
  kept_[pool] = {device, bytes};
  const std::uint64_t after = most_kept(device);
  if (Gpu* const gpu = find(device); gpu != nullptr && after != before)
    gpu->log().pool_keeps(after);
}

std::uint64_t Process::most_kept(int device) const {
  std::uint64_t most = 0;
  for (const auto& [pool, kept] : kept_) {
    if (kept.device == device) most = std::max(most, kept.bytes);
  }
  return most;
}

std::optional<int> Process::served_pool(cudaMemPool_t pool) const {
  const std::lock_guard lock{mutex_};
  const auto it = pools_.find(pool);
  return it == pools_.end() ? std::nullopt : std::optional{it->second};
}

}  // namespace millrace::interpose
