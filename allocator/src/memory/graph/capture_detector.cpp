#include "millrace/memory/capture_detector.hpp"

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

bool CaptureDetector::poll() {
  const std::lock_guard lock{mutex_};
  return still_captured();
}

// All streams of a capture end together, so that one tells of them all.
bool CaptureDetector::still_captured() {
  if (!capture_) return false;
  if (device().device().capturing(origin_.handle())) return true;
  capture_->end();
  capture_.reset();
  return false;
}

void CaptureDetector::look_at(StreamRef stream) {
  const bool is_captured = device().device().capturing(stream.handle());
  const std::lock_guard lock{mutex_};
  const bool was_captured = capture_ && capture_->has(stream);
  if (is_captured == was_captured) return;
  const bool goes_on = still_captured();
  if (!is_captured) return;
  if (goes_on) {
    capture_->wait(stream, {});
  } else {
    capture_.emplace(pool_, stream);
    origin_ = stream;
  }
}

}  // namespace millrace
