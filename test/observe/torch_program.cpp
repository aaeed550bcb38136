#include "test/observe/torch_program.hpp"

namespace millrace::test {
namespace {

using nlohmann::json;
using namespace trace;

const char* to_string(BlockState state) {
  if (state == BlockState::inactive) return "inactive";
  return state == BlockState::allocated ? "active_allocated" : "active_awaiting_free";
}

json to_json(const TorchSegment& segment) {
  json blocks = json::array();
  for (const TorchBlock& block : segment.blocks) {
    blocks.push_back({{"address", block.address},
                      {"size", block.bytes},
                      {"requested_size", block.requested},
                      {"state", to_string(block.state)}});
  }
  return {{"device", segment.device},
          {"address", segment.address},
          {"total_size", segment.bytes},
          {"stream", segment.stream},
          {"segment_type", segment.large ? "large" : "small"},
          {"segment_pool_id", {segment.pool.first, segment.pool.second}},
          {"is_expandable", segment.expandable},
          {"blocks", blocks}};
}

json to_json(const TorchEvent& event, bool tells_pools) {
  json entry{{"action", trace::to_string(event.action)},
             {"addr", event.address},
             {"size", event.bytes},
             {"stream", event.stream},
             {"time_us", event.time_us},
             {"frames", json::array()}};
  if (tells_pools) entry["pool_id"] = {event.pool->first, event.pool->second};
  return entry;
}

}  // namespace

TorchProgram::TorchProgram(std::uint64_t seed, const Options& options)
    : options_(options), random_(seed), next_address_(options.base), noted_(2) {
  const auto driver = [this](std::uint64_t bytes) {
    const std::uint64_t address = next_address_;
    next_address_ += bytes + (std::uint64_t{2} << 20);
    return address;
  };
  pools_.emplace_back(options.settings, driver);
  pools_.emplace_back(options.settings, driver);
}

void TorchProgram::run(std::size_t steps) {
  for (std::size_t i = 0; i < steps; ++i) step();
}

void TorchProgram::step() {
  const std::size_t pool = draw(4) == 0 ? 1 : 0;
  TorchModel& model = pools_[pool];
  const auto in_use = model.in_state(BlockState::allocated);
  const auto pending = model.in_state(BlockState::pending_free);
  const std::uint64_t choice = draw(24);
  if (choice < 11 || in_use.empty()) {
    const std::uint64_t most = draw(2) == 0 ? std::uint64_t{1} << 20 : options_.largest;
    model.allocate(1 + draw(most), draw(2) == 0 ? 0 : 5);
  } else if (choice < 20) {
    const std::uint64_t address = in_use[draw(in_use.size())];
    model.request_free(address);
    if (choice < 17) model.complete_free(address);
  } else if (choice < 23) {
    if (!pending.empty()) model.complete_free(pending[draw(pending.size())]);
  } else {
    model.release_cached();
  }
  note(pool);
}

void TorchProgram::note(std::size_t pool) {
  const std::vector<TorchEvent>& events = pools_[pool].events();
  for (; noted_[pool] < events.size(); ++noted_[pool]) {
    TorchEvent& event = events_.emplace_back(events[noted_[pool]]);
    event.time_us = static_cast<std::int64_t>(events_.size());
    event.pool = pool == 0 ? TorchPool{} : options_.private_pool;
  }
}

std::vector<TorchSegment> TorchProgram::segments() const {
  std::vector<TorchSegment> segments = pools_[0].segments();
  for (TorchSegment& segment : pools_[1].segments()) {
    segment.pool = options_.private_pool;
    segments.push_back(segment);
  }
  return segments;
}

json TorchProgram::snapshot(bool tells_pools) const {
  json segments_json = json::array();
  for (const TorchSegment& segment : segments()) segments_json.push_back(to_json(segment));
  json trace = json::array();
  for (const TorchEvent& event : events_) trace.push_back(to_json(event, tells_pools));
  json divisions;
  for (std::size_t i = 0; i < options_.settings.roundup_power2_divisions.size(); ++i) {
    divisions[std::to_string(std::size_t{1} << i)] = options_.settings.roundup_power2_divisions[i];
  }
  json settings{{"roundup_power2_divisions", divisions}, {"max_split_size", -1}};
  if (options_.settings.max_split_size != TorchSettings::kUnlimited) {
    settings["max_split_size"] = options_.settings.max_split_size;
  }
  return {{"segments", segments_json},
          {"device_traces", json::array({trace})},
          {"allocator_settings", settings}};
}

}  // namespace millrace::test
