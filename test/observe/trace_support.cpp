#include "test/observe/trace_support.hpp"

#include <stdexcept>

namespace millrace::test {

using nlohmann::json;
using trace::ValueKind;

json to_json(const trace::Value& value) {
  switch (value.kind()) {
    case ValueKind::none:
      return nullptr;
    case ValueKind::big_integer:
    case ValueKind::other:
      return to_string(value.kind());
    case ValueKind::boolean:
      return value.boolean();
    case ValueKind::integer:
      return value.integer();
    case ValueKind::real:
      return value.real();
    case ValueKind::string:
    case ValueKind::bytes:
      return std::string{value.text()};
    case ValueKind::list:
    case ValueKind::tuple: {
      json items = json::array();
      for (std::size_t i = 0; i < value.size(); ++i) items.push_back(to_json(value.item(i)));
      return items;
    }
    case ValueKind::dict: {
      json entries = json::object();
      for (std::size_t i = 0; i < value.size(); ++i) {
        const auto [key, item] = value.entry(i);
        entries[std::string{key.text()}] = to_json(item);
      }
      return entries;
    }
  }
  throw std::logic_error{"a kind that no value has"};
}

std::string refusal_of(const std::string& bytes) {
  return refusal([&] { return trace::parse_trace(bytes, "file"); });
}

json to_json(const trace::TorchSnapshot& snapshot) {
  static constexpr const char* states[] = {"inactive", "active_allocated", "active_pending_free"};
  json segments = json::array();
  for (const auto& segment : snapshot.segments) {
    json blocks = json::array();
    for (const auto& block : segment.blocks) {
      blocks.push_back({{"address", block.address},
                        {"size", block.bytes},
                        {"requested_size", block.requested},
                        {"state", states[static_cast<int>(block.state)]}});
    }
    segments.push_back({{"device", segment.device},
                        {"address", segment.address},
                        {"total_size", segment.bytes},
                        {"stream", segment.stream},
                        {"segment_type", segment.large ? "large" : "small"},
                        {"segment_pool_id", json::array({segment.pool.first, segment.pool.second})},
                        {"is_expandable", segment.expandable},
                        {"blocks", blocks}});
  }
  json traces = json::array();
  for (const auto& trace : snapshot.traces) {
    json events = json::array();
    for (const auto& event : trace) {
      const bool oom = event.action == trace::TorchAction::out_of_memory;
      events.push_back({{"action", to_string(event.action)},
                        {oom ? "device_free" : "addr", event.address},
                        {"size", event.bytes},
                        {"stream", event.stream},
                        {"time_us", event.time_us}});
    }
    traces.push_back(events);
  }
  return {{"segments", segments}, {"device_traces", traces}};
}

}  // namespace millrace::test
