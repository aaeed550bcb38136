#include "test/support/captured_graph.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace millrace::test {

CapturedGraph::CapturedGraph(VirtualDevice& device, StreamHandle origin)
    : device_(device), captured_{origin} {
  static_cast<void>(device_.stream_id(origin));  // the stream must exist
  device_.set_capture_status(origin, CaptureStatus::active);
}

CapturedGraph::~CapturedGraph() {
  end();
  for (const StreamHandle branch : branches_) device_.destroy_stream(branch);
}

std::size_t CapturedGraph::branch_of(StreamHandle stream) const {
  const auto it = std::ranges::find(captured_, stream);
  if (it == captured_.end()) throw std::logic_error{"this stream is not in the capture"};
  return static_cast<std::size_t>(it - captured_.begin());
}

void CapturedGraph::write(StreamHandle stream, void* address, std::size_t bytes) {
  latest_[address] = ++values_;
  steps_.push_back({Kind::write, branch_of(stream), {address, bytes, Access::write}, values_});
}

void CapturedGraph::read(StreamHandle stream, void* address, std::size_t bytes) {
  steps_.push_back(
      {Kind::read, branch_of(stream), {address, bytes, Access::read}, latest_.at(address)});
}

std::size_t CapturedGraph::record(StreamHandle stream) {
  steps_.push_back(
      {.kind = Kind::record, .branch = branch_of(stream), .view = {}, .event = events_});
  return events_++;
}

void CapturedGraph::wait(StreamHandle stream, std::size_t event) {
  if (std::ranges::find(captured_, stream) == captured_.end()) {
    device_.set_capture_status(stream, CaptureStatus::active);
    captured_.push_back(stream);
  }
  steps_.push_back({.kind = Kind::wait, .branch = branch_of(stream), .view = {}, .event = event});
}

void CapturedGraph::end() {
  if (!std::exchange(capturing_, false)) return;
  for (const StreamHandle stream : captured_)
    device_.set_capture_status(stream, CaptureStatus::none);
  for (std::size_t branch = 1; branch < captured_.size(); ++branch) {
    branches_.push_back(device_.create_stream({.name = "branch"}));
  }
}

Operation CapturedGraph::kernel(const Step& step) const {
  Operation kernel;
  kernel.name = step.kind == Kind::write ? "captured write" : "captured read";
  kernel.views = {step.view};
  kernel.host = [value = step.value, wrong = wrong_,
                 writes = step.kind == Kind::write](const KernelContext& context) {
    // Three words suffice, because memory is allocated and freed in one piece.
    const auto words = context.as<std::uint64_t>(0);
    const auto at_ends = [&](const auto& visit) {
      visit(words.front());
      visit(words[words.size() / 2]);
      visit(words.back());
    };
    if (writes) {
      at_ends([&](std::uint64_t& word) { word = value; });
    } else {
      at_ends([&](const std::uint64_t& word) { *wrong += word == value ? 0 : 1; });
    }
  };
  return kernel;
}

void CapturedGraph::read_after(StreamHandle on, void* address, std::size_t bytes) {
  device_.launch(kernel({Kind::read, 0, {address, bytes, Access::read}, latest_.at(address)}), on);
}

void CapturedGraph::replay(StreamHandle on) {
  std::vector<EventHandle> events;
  const auto edge = [&](StreamHandle from, StreamHandle to) {
    events.push_back(device_.create_event());
    device_.record(events.back(), from);
    device_.wait(to, events.back());
  };
  std::vector<StreamHandle> streams{on};
  for (const StreamHandle branch : branches_) {
    edge(on, branch);
    streams.push_back(branch);
  }
  std::vector<EventHandle> recorded(events_);
  for (const Step& step : steps_) {
    const StreamHandle stream = streams[step.branch];
    switch (step.kind) {
      case Kind::write:
      case Kind::read:
        device_.launch(kernel(step), stream);
        break;
      case Kind::record:
        events.push_back(recorded[step.event] = device_.create_event());
        device_.record(recorded[step.event], stream);
        break;
      case Kind::wait:
        device_.wait(stream, recorded[step.event]);
        break;
    }
  }
  for (const StreamHandle branch : branches_) edge(branch, on);
  for (const EventHandle event : events) device_.destroy_event(event);
}

}  // namespace millrace::test
