#include "test/support/leaving_out_device.hpp"

namespace millrace::test {

bool LeavingOutDevice::leaves_out(const std::string& waiter, const std::string& other) {
  if (other.empty()) return false;
  const std::string edge = waiter + " waits for " + other;
  ++edges_[edge];
  return drops_edge_(edge) || edge == left_out_;
}

std::string LeavingOutDevice::stream_name(StreamHandle stream) const {
  const auto known = streams_.find(stream.value);
  return known == streams_.end() ? "legacy" : known->second;
}

StreamHandle LeavingOutDevice::do_create_stream(const StreamOptions& options) {
  const StreamHandle stream = device_.create_stream(options);
  streams_[stream.value] = options.name;
  return stream;
}

void LeavingOutDevice::do_record(EventHandle event, StreamHandle stream) {
  device_.record(event, stream);
  events_[event.value] = stream_name(stream);
}

void LeavingOutDevice::do_wait(StreamHandle stream, EventHandle event) {
  const std::string waiter = stream_name(stream), other = events_[event.value];
  waits_.push_back(waiter + " waits for " + other);
  const bool left_out =
      leaves_out(waiter, other) || drops_wait_() || waits_.size() == wait_left_out_;
  if (!left_out) device_.wait(stream, event);
}

void LeavingOutDevice::do_synchronize(StreamHandle stream) {
  if (!leaves_out("host", stream_name(stream))) device_.synchronize(stream);
}

void LeavingOutDevice::do_synchronize(EventHandle event) {
  if (!leaves_out("host", events_[event.value])) device_.synchronize(event);
}

void LeavingOutDevice::do_launch(Operation operation, StreamHandle stream) {
  if (computes_ && operation.host) {
    operation.host = [computes = computes_,
                      host = std::move(operation.host)](const KernelContext& kernel) {
      if (computes()) host(kernel);
    };
  }
  device_.launch(std::move(operation), stream);
}

}  // namespace millrace::test
