#include "device/virtual/compute_engine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace millrace::simulation {
namespace {

constexpr double kDone = 1e-6;  // ns; a smaller rest of a kernel is a rounding error

Nanoseconds rounded_up(double nanoseconds) {
  return Nanoseconds{static_cast<Nanoseconds::rep>(std::ceil(nanoseconds - kDone))};
}

}  // namespace

Nanoseconds Demand::alone() const noexcept { return rounded_up(fixed + shared); }

bool ComputeEngine::Later::operator()(const std::shared_ptr<WorkItem>& a,
                                      const std::shared_ptr<WorkItem>& b) const {
  return std::tuple(a->stream->priority, a->index) > std::tuple(b->stream->priority, b->index);
}

void ComputeEngine::add(std::shared_ptr<WorkItem> item) { waiting_.push(std::move(item)); }

std::vector<WorkItem*> ComputeEngine::start(Nanoseconds now) {
  advance(now);
  std::vector<WorkItem*> started;
  for (; !waiting_.empty() && running_.size() < concurrent_; waiting_.pop()) {
    const std::shared_ptr<WorkItem>& item = waiting_.top();
    started.push_back(item.get());
    const int priority = item->stream->priority;
    const auto place = std::find_if(running_.begin(), running_.end(), [&](const Running& other) {
      return other.priority > priority;
    });
    running_.insert(place, {item, priority, item->demand.fixed, item->demand.shared, 0});
  }
  share();
  return started;
}

std::vector<std::shared_ptr<WorkItem>> ComputeEngine::take_finished(Nanoseconds now) {
  advance(now);
  std::vector<std::shared_ptr<WorkItem>> finished;
  std::erase_if(running_, [&](Running& one) {
    if (one.fixed > kDone || one.shared > kDone) return false;
    finished.push_back(std::move(one.item));
    return true;
  });
  std::sort(finished.begin(), finished.end(),
            [](const auto& a, const auto& b) { return a->index < b->index; });
  return finished;
}

void ComputeEngine::advance(Nanoseconds now) {
  const double passed = static_cast<double>((now - now_).count());
  now_ = now;
  if (passed <= 0) return;
  for (Running& one : running_) {
    const double fixed = std::min(one.fixed, passed);
    one.fixed -= fixed;
    one.shared = std::max(0.0, one.shared - (passed - fixed) * one.speed);
  }
}

// Computes each kernel's speed, from the highest priority to the lowest. If the kernels of one
// priority need more of a resource than is left, those that use it slow down in proportion.
void ComputeEngine::share() {
  using Shares = decltype(Demand::shares);
  Shares left;
  left.fill(1);
  for (auto group = running_.begin(); group != running_.end();) {
    const auto end = std::find_if(group, running_.end(), [&](const Running& other) {
      return other.priority != group->priority;
    });
    Shares asked{};
    for (auto one = group; one != end; ++one) {
      if (one->fixed > kDone) continue;
      for (std::size_t r = 0; r < asked.size(); ++r) asked[r] += one->item->demand.shares[r];
    }
    Shares speeds;
    for (std::size_t r = 0; r < asked.size(); ++r) {
      speeds[r] = asked[r] > left[r] ? left[r] / asked[r] : 1;
    }
    for (; group != end; ++group) {
      const Shares& shares = group->item->demand.shares;
      group->speed = 1;
      for (std::size_t r = 0; r < shares.size(); ++r) {
        if (shares[r] > 0) group->speed = std::min(group->speed, speeds[r]);
      }
      if (group->fixed > kDone) continue;
      for (std::size_t r = 0; r < shares.size(); ++r) {
        left[r] = std::max(0.0, left[r] - group->speed * shares[r]);
      }
    }
  }
}

Nanoseconds ComputeEngine::next_change(Nanoseconds now) const {
  double soonest = std::numeric_limits<double>::infinity();
  for (const Running& one : running_) {
    if (one.fixed > kDone) {
      // When a fixed part ends, the kernel's shared part slows others; without one, the kernel
      // ends.
      soonest = std::min(soonest, one.fixed);
    } else if (one.speed > 0) {
      soonest = std::min(soonest, one.shared / one.speed);
    }
  }
  return now + rounded_up(soonest);
}

}  // namespace millrace::simulation
