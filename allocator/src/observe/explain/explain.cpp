#include "millrace/observe/explain.hpp"

#include <utility>

#include "observe/explain/moment.hpp"
#include "observe/explain/moments.hpp"

namespace millrace {

namespace {

DeviceExplanation explain_device(const ExplainEnvironment& environment, const DeviceLog& device) {
  const Moments moments = find_moments(environment.log, device, environment.times,
                                       environment.streams, environment.ends);
  DeviceExplanation result{.device = device.device,
                           .most_live = moments.most_live,
                           .shares_streams = moments.shares_streams,
                           .failures = moments.failures.size()};
  result.peak = MomentView{environment, device, moments.peak}.explain(moments.asker, moments);
  if (!moments.failures.empty()) {
    result.failure = explain_failure(environment, device, moments.failures.back(), moments);
  }
  return result;
}

}  // namespace

const char* to_string(MemoryPart part) noexcept {
  switch (part) {
    case MemoryPart::live:
      return "live";
    case MemoryPart::rounding:
      return "rounding";
    case MemoryPart::rest:
      return "rest";
    case MemoryPart::waiting:
      return "waiting";
    case MemoryPart::stream:
      return "stream";
    case MemoryPart::pool:
      return "pool";
    case MemoryPart::hard:
      return "hard";
    case MemoryPart::soft:
      return "soft";
    case MemoryPart::driver:
      return "driver";
  }
  return "?";
}

const char* to_string(FailureReason reason) noexcept {
  switch (reason) {
    case FailureReason::beyond_device:
      return "beyond device";
    case FailureReason::live:
      return "live";
    case FailureReason::unused:
      return "unused";
    case FailureReason::waiting:
      return "waiting";
    case FailureReason::stream:
      return "stream";
    case FailureReason::pool:
      return "pool";
    case FailureReason::hard:
      return "hard";
    case FailureReason::scattered:
      return "scattered";
    case FailureReason::unknown:
      return "unknown";
    case FailureReason::outside:
      return "outside";
  }
  return "?";
}

Explanation explain(const trace::AllocationLog& log) {
  const BlockTimes times{log};
  ExplainedStreams streams{log};
  Sites sites{log};
  std::vector<std::uint64_t> ends;
  const ExplainEnvironment environment{log, times, streams, sites, ends};
  Explanation explanation;
  for (const DeviceLog& device : devices_of(log)) {
    explanation.devices.push_back(explain_device(environment, device));
  }
  for (std::uint32_t i = 0; i < log.blocks.size(); ++i)
    explanation.completed.push_back(BlockTimes::known(times.completed(i)));
  explanation.held.resize(log.blocks.size());
  for (std::size_t i = 0; i < ends.size() && log.has_addresses(); ++i) {
    if (ends[i] != 0) explanation.held[i] = ends[i] - log.blocks[i].address;
  }
  explanation.streams = streams.streams();
  explanation.sites = sites.take();
  return explanation;
}

}  // namespace millrace
