#include "millrace/memory/graph_pool.hpp"

#include <stdexcept>

#include "memory/graph/graph_pools.hpp"

namespace millrace {

void GraphPool::reserve(std::size_t bytes) {
  (void)hold_->pools();
  if (bytes > 0) hold_->pool->reserve(bytes);
}

void GraphPool::launched(StreamRef stream) {
  (void)hold_->pools();
  hold_->pool->launched(stream);
}

void* GraphPool::retain() const { return new std::shared_ptr<Hold>{hold_}; }

void GraphPool::release(void* retained) noexcept {
  delete static_cast<std::shared_ptr<Hold>*>(retained);
}

GraphPoolStatistics GraphPool::statistics() const { return hold_->pool->statistics(); }

GraphCapture::GraphCapture(GraphPool pool, StreamRef origin) : pool_(std::move(pool)) {
  pool_.hold_->pools().begin(*pool_.hold_->pool, origin);
}

GraphCapture::~GraphCapture() { abandon(); }

Point GraphCapture::mark(StreamRef stream) {
  GraphPools& pools = pool_.hold_->pools();
  const auto inner = pools.in_capture(*pool_.hold_->pool, stream);
  if (!inner) throw std::invalid_argument{"mark: this stream is not in the capture"};
  return pool_.hold_->pool->order().device().mark(*inner);
}

void GraphCapture::wait(StreamRef stream, Point marker) {
  if (!going_on_) throw std::logic_error{"wait: the capture has ended"};
  GraphPools& pools = pool_.hold_->pools();
  PrivatePool& pool = *pool_.hold_->pool;
  auto inner = pools.in_capture(pool, stream);
  if (!inner) {
    pools.join(pool, stream);
    inner = pools.in_capture(pool, stream);
  }
  if (marker.stream.valid()) pool.order().device().wait_for(*inner, marker);
}

bool GraphCapture::has(StreamRef stream) const {
  const GraphPool::Hold& hold = *pool_.hold_;
  return going_on_ && hold.pool->order().has(stream);
}

void GraphCapture::end() {
  if (!std::exchange(going_on_, false)) return;
  pool_.hold_->pools().end(*pool_.hold_->pool, true);
}

void GraphCapture::abandon() noexcept {
  if (!std::exchange(going_on_, false)) return;
  try {
    pool_.hold_->pools().end(*pool_.hold_->pool, false);
  } catch (const std::exception&) {  // the allocator is gone, and the capture's memory with it
  }
}

}  // namespace millrace
