#include "explain/explained.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/read_log.hpp"
#include "explain/rows.hpp"

namespace millrace::cli {
namespace {

/** Explains a log without replays. */
ExplainedFile explained_log(const std::string& file, trace::AllocationLog log,
                            const std::string& name) {
  ExplainedFile explained{
      .file = file, .log = std::move(log), .explanation = {}, .devices = {}, .host = {}};
  explained.explanation = explain(explained.log);
  for (const DeviceExplanation& device : explained.explanation.devices) {
    explained.devices.push_back(
        {.name = name.empty() ? fmt::format("device {}", device.device) : name,
         .memory = device,
         .rows = {},
         .limit = {},
         .notes = {},
         .packed = {},
         .ladder = {},
         .left_out = {},
         .advice = {}});
  }
  return explained;
}

}  // namespace

std::string WhatIfRow::name() const {
  return change == ProgramChange::none ? allocator
                                       : fmt::format("{}, {}", allocator, to_string(change));
}

const WhatIfRow* ExplainedDevice::find(std::string_view allocator, ProgramChange change) const {
  const auto row = std::ranges::find_if(rows, [&](const WhatIfRow& each) {
    return each.reserved && each.allocator == allocator && each.change == change;
  });
  return row == rows.end() ? nullptr : &*row;
}

ExplainedFile explain_file(const std::string& file, Replays replays) {
  return explain_log(file, read_log(file), replays);
}

ExplainedFile explain_log(const std::string& name, trace::AllocationLog log, Replays replays) {
  ExplainedFile explained = explained_log(name, std::move(log), "");
  add_rows(explained, replays);
  for (ExplainedDevice& device : explained.devices) device.advice = advise(explained, device);
  for (trace::AllocationLog& host : explained.log.host) {
    explained.host.push_back(explained_log(name, std::move(host), "pinned host memory"));
  }
  explained.log.host.clear();
  return explained;
}

}  // namespace millrace::cli
