#include "millrace/memory/capture_detector.hpp"

#include <mutex>
#include <utility>

namespace millrace {

CaptureDetector::CaptureDetector(CachingAllocator& inner, GraphPool pool)
    : ForwardingAllocator(inner), pool_(std::move(pool)) {}

CaptureDetector::~CaptureDetector() = default;

void* CaptureDetector::allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag) {
  look_at(owner);
  if (first_user.handle() != owner.handle()) look_at(first_user);
  return ForwardingAllocator::allocate(bytes, owner, first_user, tag);
}

void CaptureDetector::deallocate(void* address, StreamRef stream) {
  look_at(stream);
  ForwardingAllocator::deallocate(address, stream);
}

void CaptureDetector::record_use(void* address, StreamRef stream) {
  look_at(stream);
  ForwardingAllocator::record_use(address, stream);
}

void CaptureDetector::transfer(void* address, StreamRef owner) {
  look_at(owner);
  ForwardingAllocator::transfer(address, owner);
}

bool CaptureDetector::asks_captured(StreamRef stream) const {
  return is_captured(device().device().capture_status(stream.handle()));
}

std::optional<CaptureDetector::Watched> CaptureDetector::watched() const {
  const std::lock_guard lock{mutex_};
  return capture_ ? std::optional{Watched{captures_, origin_}} : std::nullopt;
}

// All streams of a capture end together, so one stands for all. The device is queried without the
// lock: the answer is ignored if another thread has ended that capture meanwhile.
//
// The program may have destroyed the stream after the end of its capture.
bool CaptureDetector::still_captured(const Watched& seen) {
  try {
    if (asks_captured(seen.origin)) return true;
  } catch (const DeviceError& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
  }
  const std::lock_guard lock{mutex_};
  if (!capture_ || captures_ != seen.number) return false;
  capturing_ = false;
  capture_->end();
  capture_.reset();
  return false;
}

bool CaptureDetector::poll() {
  if (in_host_callback()) return capturing_;
  const auto seen = watched();
  return seen && still_captured(*seen);
}

void CaptureDetector::look_at(StreamRef stream) {
  if (in_host_callback()) return;
  const bool is_captured = asks_captured(stream);
  {
    const std::lock_guard lock{mutex_};
    // The usual case: the detector knows this already.
    if (is_captured == (capture_ && capture_->has(stream))) return;
  }
  // The stream has joined or left a capture, so the known capture may have ended.
  if (const auto seen = watched()) still_captured(*seen);
  if (!is_captured) return;
  const std::lock_guard lock{mutex_};
  if (!capture_) {
    capture_.emplace(pool_, stream);
    origin_ = stream;
    ++captures_;
    capturing_ = true;
  } else if (!capture_->has(stream)) {
    capture_->wait(stream, {});
  }
}

}  // namespace millrace
