#include "millrace/experiment/run_recording.hpp"

#include <algorithm>

namespace millrace::experiment {

RunRecording::RunRecording(VirtualMachine& machine, Device& device, const AllocationTrace& trace,
                           unsigned ordinal)
    : machine_(machine), device_(device), trace_(trace), ordinal_(ordinal) {
  machine_.add_timeline(*this);
  device_.add_observer(*this);
}

RunRecording::~RunRecording() {
  device_.remove_observer(*this);
  machine_.remove_timeline(*this);
}

std::uint32_t RunRecording::index_of(std::vector<std::string>& list, std::string_view name) {
  const auto [known, is_new] = indices_.try_emplace({&list == &streams, std::string{name}},
                                                    static_cast<std::uint32_t>(list.size()));
  if (is_new) list.emplace_back(name);
  return known->second;
}

void RunRecording::executed(const ExecutedOperation& operation) {
  if (operation.device != ordinal_) return;
  const std::uint32_t stream = index_of(streams, operation.stream_name);
  const Nanoseconds idle_since =
      std::max(std::exchange(last_ends_[stream], operation.end), operation.enqueued);
  if (operations.size() == kMost) {
    ++left_out;
    return;
  }
  ended_[operation.index] = {stream, operation.end};
  for (const std::uint64_t index : operation.after) {
    const auto earlier = ended_.find(index);
    if (earlier == ended_.end() || earlier->second.first == stream) continue;
    orders.push_back({earlier->second.first, stream, earlier->second.second, operation.end});
  }
  // Records, waits and pool operations of a stream take no time. Only a wait that delayed the
  // stream is kept.
  if (operation.engine == Engine::stream && operation.end <= idle_since) return;
  operations.push_back({index_of(names, operation.name), stream, operation.engine, operation.begin,
                        operation.end, idle_since});
}

void RunRecording::after(Call) {
  const auto actor = machine_.calling_actor();
  if (!actor) return;
  const TracePosition position = trace_.position();
  if (!times_.empty() && times_.back().first == position) return;
  const Nanoseconds last = times_.empty() ? Nanoseconds{0} : times_.back().second;
  times_.emplace_back(position, std::max(last, actor->clock));
}

std::vector<Nanoseconds> RunRecording::times() const {
  std::vector<Nanoseconds> times;
  times.reserve(trace_.position());
  for (const auto& [position, time] : times_) times.resize(position, time);
  times.resize(trace_.position(), times_.empty() ? Nanoseconds{0} : times_.back().second);
  return times;
}

}  // namespace millrace::experiment
