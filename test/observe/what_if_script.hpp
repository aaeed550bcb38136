#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/observe/trace/read_trace.hpp"
#include "millrace/observe/trace/trace_writer.hpp"
#include "millrace/observe/what_if.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {

class TextSink final : public trace::TraceSink {
 public:
  bool write(std::string_view record) override {
    text.append(record);
    return true;
  }
  std::string text;
};

/// A trace that a test writes step by step. The test sets the time.
struct Script {
  Script() {
    writer.emplace(sink, [this] { return now; });
  }

  std::uint32_t stream(const std::string& name) { return writer->stream({.name = name}); }
  trace::StackTable::Id site(const std::string& function) {
    return writer->stack(trace::StackTable::kNone, writer->frame({"app.cpp", function, 7}));
  }
  trace::AllocationLog log() {
    writer.reset();
    return trace::parse_trace(sink.text, "script");
  }

  TextSink sink;
  std::int64_t now = 0;
  std::optional<trace::TraceWriter> writer;
};

/// Returns the move of a strategy for a site ("" for the whole stream), or nullptr.
inline const WhatIfMove* find(const WhatIf& found, WhatIfStrategy strategy,
                              const std::string& site = "") {
  for (const WhatIfMove& move : found.moves) {
    if (move.strategy == strategy && move.site.starts_with(site) &&
        site.empty() == move.site.empty())
      return &move;
  }
  return nullptr;
}

}  // namespace millrace::test
