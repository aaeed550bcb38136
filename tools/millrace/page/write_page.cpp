#include <fmt/format.h>

#include <cmath>
#include <ostream>
#include <string_view>

#include "cli/error.hpp"
#include "millrace/embedded/viewer.hpp"
#include "page/check.hpp"
#include "page/columns.hpp"
#include "page/page_data.hpp"

// The file is the template `markup` with the style, the bundled script, a JSON header (names,
// tables, locations of columns), and the columns. tools/viewer/src/read.ts reads it.

namespace millrace::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string_view viewer_file(std::string_view name) {
  for (const EmbeddedFile& file : embedded::viewer()) {
    if (file.name == name) return file.text;
  }
  return {};
}

/// Escapes JSON so that a browser finds no markup in it. JSON contains `<` only in strings.
std::string without_markup(std::string text) {
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos; at += 6) {
    text.replace(at, 1, "\\u003c");
  }
  return text;
}

std::string plain_json(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The clock of a run on the page: nanoseconds since its first event, or events.
class Clock {
 public:
  explicit Clock(const PageRun& run)
      : start_(run.times_us.empty() ? 0 : run.times_us.front()),
        scale_(run.times_us.empty() ? 1 : 1000) {}
  [[nodiscard]] std::int64_t operator()(double at) const {
    return std::llround((at - start_) * scale_);
  }

 private:
  double start_, scale_;
};

template <typename Value, typename Rows, typename Get>
Json column(Columns& columns, const Rows& rows, Get get) {
  std::vector<Value> values;
  values.reserve(rows.size());
  for (const auto& row : rows) values.push_back(static_cast<Value>(get(row)));
  return columns.add(values);
}

template <typename Rows, typename Row, typename Member>
Json numbers(Columns& columns, const Rows& rows, Member Row::*member) {
  return column<std::uint32_t>(columns, rows, [&](const Row& row) { return row.*member; });
}

template <typename Rows, typename Row>
Json sizes(Columns& columns, const Rows& rows, std::uint64_t Row::*member) {
  return column<std::int64_t>(columns, rows, [&](const Row& row) { return row.*member; });
}

template <typename Rows, typename Row>
Json clocks(Columns& columns, const Rows& rows, double Row::*member, const Clock& clock) {
  return column<std::int64_t>(columns, rows, [&](const Row& row) { return clock(row.*member); });
}

Json blocks_of(const PageRun& run, Columns& columns) {
  const std::vector<PageBlock>& blocks = run.blocks;
  return {{"address", sizes(columns, blocks, &PageBlock::address)},
          {"bytes", sizes(columns, blocks, &PageBlock::bytes)},
          {"requested", sizes(columns, blocks, &PageBlock::requested)},
          {"device", numbers(columns, blocks, &PageBlock::device)},
          {"stream", numbers(columns, blocks, &PageBlock::stream)},
          {"allocated", numbers(columns, blocks, &PageBlock::allocated)},
          {"freed", numbers(columns, blocks, &PageBlock::freed)},
          {"ready", numbers(columns, blocks, &PageBlock::ready)},
          {"tag", numbers(columns, blocks, &PageBlock::tag)},
          {"stack", numbers(columns, blocks, &PageBlock::stack)},
          {"previous", numbers(columns, blocks, &PageBlock::previous)},
          {"reuse", numbers(columns, blocks, &PageBlock::reuse)},
          {"site", numbers(columns, blocks, &PageBlock::site)},
          {"pool", numbers(columns, blocks, &PageBlock::pool)},
          {"placed", numbers(columns, blocks, &PageBlock::placed)},
          {"wait", numbers(columns, blocks, &PageBlock::wait)}};
}

Json segments_of(const PageRun& run, Columns& columns) {
  const std::vector<PageSegment>& segments = run.segments;
  return {{"address", sizes(columns, segments, &PageSegment::address)},
          {"bytes", sizes(columns, segments, &PageSegment::bytes)},
          {"device", numbers(columns, segments, &PageSegment::device)},
          {"stream", numbers(columns, segments, &PageSegment::stream)},
          {"mapped", numbers(columns, segments, &PageSegment::mapped)},
          {"unmapped", numbers(columns, segments, &PageSegment::unmapped)},
          {"pool", numbers(columns, segments, &PageSegment::pool)},
          {"expandable", numbers(columns, segments, &PageSegment::expandable)}};
}

Json free_of(const PageRun& run, Columns& columns) {
  const std::vector<PageFree>& free = run.free;
  return {{"address", sizes(columns, free, &PageFree::address)},
          {"bytes", sizes(columns, free, &PageFree::bytes)},
          {"device", numbers(columns, free, &PageFree::device)},
          {"stream", numbers(columns, free, &PageFree::stream)},
          {"from", numbers(columns, free, &PageFree::from)},
          {"to", numbers(columns, free, &PageFree::to)}};
}

Json askers_of(const PageRun& run) {
  Json askers = Json::array();
  for (const PageAsker& asker : run.askers) {
    askers.push_back({{"device", asker.device},
                      {"stream", asker.stream},
                      {"pool", asker.pool == kUnknown ? Json{} : Json(asker.pool)},
                      {"shares", asker.shares},
                      {"fixed", asker.fixed}});
  }
  return askers;
}

Json operations_of(const PageRun& run, Columns& columns) {
  const Clock clock{run};
  const std::vector<PageOperation>& operations = run.operations;
  return {{"stream", numbers(columns, operations, &PageOperation::stream)},
          {"kind", numbers(columns, operations, &PageOperation::kind)},
          {"name", numbers(columns, operations, &PageOperation::name)},
          {"begin", clocks(columns, operations, &PageOperation::begin, clock)},
          {"end", clocks(columns, operations, &PageOperation::end, clock)}};
}

Json arrows_of(const PageRun& run, Columns& columns) {
  const Clock clock{run};
  const std::vector<PageArrow>& arrows = run.arrows;
  return {{"from_stream", numbers(columns, arrows, &PageArrow::from_stream)},
          {"to_stream", numbers(columns, arrows, &PageArrow::to_stream)},
          {"from", clocks(columns, arrows, &PageArrow::from, clock)},
          {"to", clocks(columns, arrows, &PageArrow::to, clock)},
          {"for_reuse", numbers(columns, arrows, &PageArrow::for_reuse)}};
}

/// Frames are a separate text, because the viewer decodes them only to show or search a stack.
Json stacks_of(const PageRun& run, Columns& columns) {
  Json frames = Json::array();
  for (const PageFrame& frame : run.frames) {
    frames.push_back({frame.function, frame.file, frame.line});
  }
  std::vector<std::uint32_t> ends, indices;
  for (const std::vector<std::uint32_t>& stack : run.stacks) {
    indices.insert(indices.end(), stack.begin(), stack.end());
    ends.push_back(static_cast<std::uint32_t>(indices.size()));
  }
  return {{"frames", columns.add_text(plain_json(frames))},
          {"ends", columns.add(ends)},
          {"indices", columns.add(indices)}};
}

Json marks_of(const PageRun& run) {
  static constexpr const char* kKinds[] = {"annotation", "out of memory", "peak", "step"};
  const Clock clock{run};
  Json marks = Json::array();
  for (const PageMark& mark : run.marks) {
    marks.push_back({{"kind", kKinds[static_cast<std::size_t>(mark.kind)]},
                     {"text", mark.text},
                     {"begin", clock(mark.begin)},
                     {"end", clock(mark.end)},
                     {"device", mark.device == kUnknown ? Json{} : Json(mark.device)},
                     {"event", mark.event == kUnknown ? Json{} : Json(mark.event)}});
  }
  return marks;
}

Json counters_of(const PageRun& run, Columns& columns) {
  static constexpr const char* kKinds[] = {"reserved", "active", "live", "other"};
  const Clock clock{run};
  Json counters = Json::array();
  for (const PageCounter& counter : run.counters) {
    const auto at = [&](const auto& point) { return clock(point.first); };
    const auto bytes = [](const auto& point) { return point.second.value_or(kUnknownBytes); };
    counters.push_back({{"kind", kKinds[static_cast<std::size_t>(counter.kind)]},
                        {"name", counter.name},
                        {"device", counter.device},
                        {"at", column<std::int64_t>(columns, counter.points, at)},
                        {"bytes", column<std::int64_t>(columns, counter.points, bytes)}});
  }
  return counters;
}

Json tables_of(const PageRun& run) {
  Json tables = Json::array();
  for (const PageRows& table : run.tables) {
    Json rows = Json::array();
    for (const PageRow& row : table.rows) {
      rows.push_back({{"label", row.label},
                      {"bytes", row.bytes ? Json(*row.bytes) : Json{}},
                      {"note", row.note},
                      {"emphasized", row.emphasized},
                      {"is_less", row.is_less}});
    }
    tables.push_back({{"title", table.title},
                      {"device", table.device},
                      {"cumulative", table.cumulative},
                      {"changes", table.changes},
                      {"rows", std::move(rows)}});
  }
  return tables;
}

Json run_of(const PageRun& run, Columns& columns) {
  Json meta = Json::array(), streams = Json::array(), summary = Json::array();
  for (const PageSentence& sentence : run.summary) {
    summary.push_back({{"text", sentence.text},
                       {"device", sentence.device == kUnknown ? Json{} : Json(sentence.device)}});
  }
  for (const auto& [name, value] : run.meta) meta.push_back({name, value});
  for (const PageStream& stream : run.streams) {
    streams.push_back({{"device", stream.device}, {"name", stream.name}});
  }
  Json document{{"name", run.name},       {"meta", meta},         {"summary", summary},
                {"devices", run.devices}, {"events", run.events}, {"streams", streams},
                {"tags", run.tags},       {"names", run.names}};
  document["sites"] = run.sites;
  document["pools"] = run.pools;
  document["askers"] = askers_of(run);
  document["knows_rounding"] = run.knows_rounding;
  document["event_word"] = run.event_word;
  const auto given = [&](const std::vector<std::uint32_t>& values) {
    return values.empty() ? Json{} : columns.add(values);
  };
  document["positions"] = given(run.positions);
  document["devices_of_events"] = given(run.devices_of_events);
  document["times"] =
      run.times_us.empty()
          ? Json{}
          : column<std::int64_t>(columns, run.times_us,
                                 [clock = Clock{run}](double at) { return clock(at); });
  document["blocks"] = blocks_of(run, columns);
  document["segments"] = segments_of(run, columns);
  document["free"] = free_of(run, columns);
  document["operations"] = operations_of(run, columns);
  document["arrows"] = arrows_of(run, columns);
  document["stacks"] = stacks_of(run, columns);
  document["marks"] = marks_of(run);
  document["counters"] = counters_of(run, columns);
  document["tables"] = tables_of(run);
  return document;
}

}  // namespace

void require_page() {
  if (!viewer_file("script").empty()) return;
  throw UsageError{"this program was built without the page's viewer, because esbuild was missing",
                   "--html", "install esbuild (apt-get install esbuild), and build again"};
}

void write_page(const PageData& data, std::ostream& out) {
  require_page();
  check_page(data);
  Columns columns;
  Json header{{"version", 1}, {"title", data.title}, {"runs", Json::array()}};
  for (const PageRun& run : data.runs) header["runs"].push_back(run_of(run, columns));

  std::string_view rest = viewer_file("markup");
  const auto part = [&](std::string_view marker) {
    const std::size_t at = rest.find(marker);
    out << rest.substr(0, at);
    rest.remove_prefix(at + marker.size());
  };
  part("/*style*/");
  out << viewer_file("style");
  part("/*header*/");
  out << without_markup(plain_json(header));
  part("<!--columns-->");
  columns.write(out);
  part("/*script*/");
  out << viewer_file("script") << rest;
}

}  // namespace millrace::cli
