#include "test/support/threaded_device.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "device/virtual/host_memory.hpp"
#include "device/virtual/physical_pages.hpp"

namespace millrace::test {

namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20;

[[noreturn]] void refuse(const char* call, const char* why) {
  throw DeviceError{ErrorCode::invalid_argument, call, why};
}

// mprotect fails for addresses that are not reserved.
void require_range(const char* call, void* address, std::size_t bytes) {
  if (mprotect(address, bytes, PROT_NONE) != 0) refuse(call, "no range is there");
}

}  // namespace

void ThreadedDevice::Milestone::reach() {
  const std::lock_guard lock{mutex_};
  reached_ = true;
  changed_.notify_all();
}

void ThreadedDevice::Milestone::wait() {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return reached_; });
}

bool ThreadedDevice::Milestone::reached() {
  const std::lock_guard lock{mutex_};
  return reached_;
}

/// Runs enqueued work in order. Ends when all work has run and no more will come.
class ThreadedDevice::Worker {
 public:
  explicit Worker(std::uint64_t id) : id_(id), thread_([this] { run(); }) {}
  ~Worker() {
    leave();
    thread_.join();
  }

  void enqueue(Work work) {
    const std::lock_guard lock{mutex_};
    queue_.push_back(std::move(work));
    changed_.notify_one();
  }

  void leave() {
    const std::lock_guard lock{mutex_};
    leaving_ = true;
    changed_.notify_one();
  }

  [[nodiscard]] bool ended() const noexcept { return ended_; }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

 private:
  void run() {
    while (Work work = next()) work();
    ended_ = true;
  }

  Work next() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return leaving_ || !queue_.empty(); });
    if (queue_.empty()) return nullptr;
    Work work = std::move(queue_.front());
    queue_.pop_front();
    return work;
  }

  const std::uint64_t id_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  bool leaving_ = false;
  std::atomic<bool> ended_ = false;
  std::thread thread_;  // last member, because it uses the others
};

/// The page that is mapped at each address of the ranges.
class ThreadedDevice::MappedPages {
 public:
  explicit MappedPages(std::size_t most_bytes) : pages_(kGranularity, most_bytes, true) {}

  void map(void* address, std::size_t bytes) {
    require(address, bytes, false);
    for (void* const at : pages_of(address, bytes)) show(at, pages_.take());
  }

  void alias(void* to, void* from, std::size_t bytes) {
    require(from, bytes, true);
    require(to, bytes, false);
    const std::vector<void*> there = pages_of(to, bytes), here = pages_of(from, bytes);
    for (std::size_t i = 0; i < here.size(); ++i) {
      const simulation::PhysicalPages::Page page = mapped_.at(here[i]);
      pages_.share(page);
      show(there[i], page);
    }
  }

  /// Returns the bytes that are mapped nowhere else. Later accesses to these addresses fault.
  std::size_t unmap(void* address, std::size_t bytes) {
    require(address, bytes, true);
    const std::size_t before = pages_.used_bytes();
    for (void* const at : pages_of(address, bytes)) {
      const auto page = mapped_.extract(at);
      simulation::map_memory(at, kGranularity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                             -1);
      pages_.drop(page.mapped());
    }
    return before - pages_.used_bytes();
  }

 private:
  static std::vector<void*> pages_of(void* address, std::size_t bytes) {
    std::vector<void*> pages;
    for (std::size_t at = 0; at < bytes; at += kGranularity) {
      pages.push_back(static_cast<std::byte*>(address) + at);
    }
    return pages;
  }

  // Throws no DeviceError, because an allocator continues after that, and the test must fail.
  void require(void* address, std::size_t bytes, bool is_mapped) const {
    for (void* const at : pages_of(address, bytes)) {
      if (mapped_.contains(at) != is_mapped) throw std::logic_error{"mapped twice, or not at all"};
    }
  }

  void show(void* at, simulation::PhysicalPages::Page page) {
    pages_.show(page, static_cast<std::byte*>(at));
    simulation::unpoison(static_cast<std::byte*>(at), kGranularity);  // no kernel declares its use
    mapped_.emplace(at, page);
  }

  simulation::PhysicalPages pages_;
  std::map<void*, simulation::PhysicalPages::Page> mapped_;
};

ThreadedDevice::ThreadedDevice(std::size_t memory_bytes)
    : capacity_(memory_bytes), pages_(std::make_unique<MappedPages>(memory_bytes)) {}

ThreadedDevice::~ThreadedDevice() {
  streams_.clear();
  leaving_.clear();
  for (const auto& [address, bytes] : memory_) std::free(address);
}

void ThreadedDevice::enqueue(StreamHandle stream, Work work) {
  const std::lock_guard lock{mutex_};
  const auto it = streams_.find(stream.value);
  if (it == streams_.end()) refuse("enqueue", "no such stream");
  it->second->enqueue(std::move(work));
}

std::shared_ptr<ThreadedDevice::Milestone> ThreadedDevice::tail(StreamHandle stream) {
  auto milestone = std::make_shared<Milestone>();
  enqueue(stream, [milestone] { milestone->reach(); });
  return milestone;
}

std::shared_ptr<ThreadedDevice::Milestone> ThreadedDevice::latest(EventHandle event) {
  const std::lock_guard lock{mutex_};
  const auto it = events_.find(event.value);
  if (it == events_.end()) refuse("event", "no such event");
  return it->second;
}

void* ThreadedDevice::do_allocate(std::size_t bytes) {
  const std::size_t rounded = (bytes + kGranularity - 1) / kGranularity * kGranularity;
  const std::lock_guard lock{mutex_};
  if (rounded > capacity_ - allocated_) {
    throw DeviceError{ErrorCode::out_of_memory, "allocate", "the device is full"};
  }
  void* const address = std::aligned_alloc(kGranularity, rounded);
  if (address == nullptr) throw DeviceError{ErrorCode::out_of_memory, "allocate", "the host's"};
  memory_.emplace(address, rounded);
  allocated_ += rounded;
  return address;
}

void ThreadedDevice::do_free(void* address) {
  const std::lock_guard lock{mutex_};
  const auto it = memory_.find(address);
  if (it == memory_.end()) refuse("free", "not allocated");
  allocated_ -= it->second;
  memory_.erase(it);
  std::free(address);
}

std::size_t ThreadedDevice::page_bytes() const { return kGranularity; }

void* ThreadedDevice::do_reserve_range(std::size_t bytes) {
  void* const base =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base != MAP_FAILED) return base;
  throw DeviceError{ErrorCode::out_of_memory, "reserve_range", "the host's addresses"};
}

void ThreadedDevice::do_release_range(void* base, std::size_t bytes) { munmap(base, bytes); }

void ThreadedDevice::do_map(void* address, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  if (bytes > capacity_ - allocated_) {
    throw DeviceError{ErrorCode::out_of_memory, "map", "the device is full"};
  }
  require_range("map", address, bytes);
  pages_->map(address, bytes);
  allocated_ += bytes;
}

void ThreadedDevice::do_alias(void* to, void* from, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  require_range("alias", to, bytes);
  pages_->alias(to, from, bytes);
}

void ThreadedDevice::do_unmap(void* address, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  allocated_ -= pages_->unmap(address, bytes);
}

StreamHandle ThreadedDevice::do_create_stream(const StreamOptions&) {
  const std::lock_guard lock{mutex_};
  std::erase_if(leaving_, [](const auto& worker) { return worker->ended(); });
  auto worker = std::make_shared<Worker>(next_id_++);
  const StreamHandle handle{worker.get()};
  streams_.emplace(handle.value, std::move(worker));
  return handle;
}

void ThreadedDevice::do_destroy_stream(StreamHandle stream) {
  const std::lock_guard lock{mutex_};
  const auto it = streams_.find(stream.value);
  if (it == streams_.end()) refuse("destroy_stream", "no such stream");
  it->second->leave();
  leaving_.push_back(std::move(it->second));
  streams_.erase(it);
}

std::uint64_t ThreadedDevice::do_stream_id(StreamHandle stream) {
  if (stream == legacy_stream()) return 0;
  const std::lock_guard lock{mutex_};
  const auto it = streams_.find(stream.value);
  if (it == streams_.end()) refuse("stream_id", "no such stream");
  return it->second->id();
}

void ThreadedDevice::do_synchronize() {
  std::vector<std::shared_ptr<Milestone>> tails;
  std::vector<std::shared_ptr<Worker>> leaving;
  {
    const std::lock_guard lock{mutex_};
    for (const auto& [handle, worker] : streams_) {
      tails.push_back(std::make_shared<Milestone>());
      worker->enqueue([tail = tails.back()] { tail->reach(); });
    }
    leaving = std::exchange(leaving_, {});
  }
  leaving.clear();  // joins them
  for (const auto& milestone : tails) milestone->wait();
}

EventHandle ThreadedDevice::do_create_event(bool) {
  auto* const place = new char;
  const std::lock_guard lock{mutex_};
  events_.emplace(place, nullptr);
  return {place};
}

void ThreadedDevice::do_destroy_event(EventHandle event) {
  const std::lock_guard lock{mutex_};
  if (events_.erase(event.value) == 0) refuse("destroy_event", "no such event");
  delete static_cast<char*>(event.value);
}

void ThreadedDevice::do_record(EventHandle event, StreamHandle stream) {
  static_cast<void>(latest(event));
  auto milestone = tail(stream);
  const std::lock_guard lock{mutex_};
  events_.at(event.value) = std::move(milestone);
}

void ThreadedDevice::do_wait(StreamHandle stream, EventHandle event) {
  if (const auto milestone = latest(event)) enqueue(stream, [milestone] { milestone->wait(); });
}

bool ThreadedDevice::do_query(EventHandle event) {
  const auto milestone = latest(event);
  return milestone == nullptr || milestone->reached();
}

void ThreadedDevice::do_synchronize(EventHandle event) {
  if (const auto milestone = latest(event)) milestone->wait();
}

Nanoseconds ThreadedDevice::do_event_time(EventHandle) {
  throw DeviceError{ErrorCode::not_supported, "event_time", "there is no clock"};
}

void ThreadedDevice::do_copy(void* to, const void* from, std::size_t bytes, CopyKind,
                             StreamHandle stream) {
  enqueue(stream, [=] {
    if (bytes > 0) std::memcpy(to, from, bytes);  // pointers may be null
  });
}

void ThreadedDevice::do_fill(void* address, unsigned char value, std::size_t bytes,
                             StreamHandle stream) {
  enqueue(stream, [=] {
    if (bytes > 0) std::memset(address, value, bytes);
  });
}

void ThreadedDevice::do_launch(Operation operation, StreamHandle stream) {
  if (!operation.host) return;
  enqueue(stream, [operation = std::move(operation)] {
    std::vector<std::span<std::byte>> views;
    for (const View& view : operation.views) {
      views.emplace_back(static_cast<std::byte*>(view.address), view.bytes);
    }
    operation.host(KernelContext{views});
  });
}

void ThreadedDevice::do_callback(StreamHandle stream, Work function, std::uint64_t) {
  enqueue(stream, std::move(function));
}

}  // namespace millrace::test
