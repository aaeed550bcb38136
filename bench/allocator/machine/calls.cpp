#include "allocator/machine/calls.hpp"

#include <memory>
#include <mutex>
#include <numeric>
#include <vector>

namespace millrace::bench {
namespace {

struct AllThreads {
  std::mutex mutex;
  std::vector<std::unique_ptr<CallCounts>> counts;
};

AllThreads& all_threads() {
  static AllThreads all;
  return all;
}

CallCounts* counts_of_new_thread() {
  AllThreads& all = all_threads();
  const std::lock_guard lock{all.mutex};
  return all.counts.emplace_back(std::make_unique<CallCounts>()).get();
}

CallCounts& counts_of_this_thread() {
  thread_local CallCounts* const counts = counts_of_new_thread();
  return *counts;
}

}  // namespace

std::uint64_t CallCounts::all() const {
  return std::accumulate(of.begin(), of.end(), std::uint64_t{0});
}

double CallCounts::nanoseconds(const DeviceProfile& profile, std::uint64_t pages) const {
  double sum = static_cast<double>(profile.page_time.count()) * static_cast<double>(pages);
  for (std::size_t i = 0; i < of.size(); ++i) {
    sum += static_cast<double>(of[i]) * static_cast<double>(profile.host_time[i].count());
  }
  return sum;
}

CallCounts& CallCounts::operator+=(const CallCounts& other) {
  for (std::size_t i = 0; i < of.size(); ++i) of[i] += other.of[i];
  return *this;
}

CallCounts operator-(const CallCounts& one, const CallCounts& other) {
  CallCounts result = one;
  for (std::size_t i = 0; i < result.of.size(); ++i) result.of[i] -= other.of[i];
  return result;
}

void count_call(Call call) noexcept { ++counts_of_this_thread()[call]; }

CallCounts counted_calls() {
  AllThreads& all = all_threads();
  const std::lock_guard lock{all.mutex};
  CallCounts sum;
  for (const auto& counts : all.counts) sum += *counts;
  return sum;
}

}  // namespace millrace::bench
