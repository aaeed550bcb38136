#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <unordered_map>

#include "millrace/observe/trace/parse_error.hpp"
#include "observe/trace/csv/csv.hpp"
#include "observe/trace/formats.hpp"
#include "observe/trace/memory_budget.hpp"
#include "observe/trace/value/field.hpp"

// The instances of MiniMalloc: id, lower, upper and size, with half-open lifetimes. Its older files
// name the columns buffer (or buffer_id), start (or begin) and end, where end is the last moment of
// the life.

namespace millrace::trace {

namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;
constexpr std::int64_t kLatest = std::int64_t{1} << 62;
constexpr std::uint64_t kBytesOfLife = 400;  // what is kept of one, at most

struct Column {
  std::string_view name;
  std::array<std::string_view, 2> older;
};
constexpr Column kId{"id", {"buffer", "buffer_id"}};
constexpr Column kLower{"lower", {"start", "begin"}};
constexpr Column kUpper{"upper", {"end", "end"}};
constexpr Column kSize{"size", {"size", "size"}};

bool has(const Csv& csv, std::string_view name) {
  return std::ranges::find(csv.header(), name) != csv.header().end();
}

std::string_view name_of(const Csv& csv, const Column& column) {
  for (const std::string_view older : column.older) {
    if (has(csv, older)) return older;
  }
  return column.name;
}

class LifetimesReader {
 public:
  LifetimesReader(Csv& csv, const std::string& source, std::uint64_t most_memory)
      : csv_{csv},
        rows_left_{most_memory / kBytesOfLife},
        id_{csv.column(name_of(csv, kId))},
        lower_{csv.column(name_of(csv, kLower))},
        upper_{csv.column(name_of(csv, kUpper))},
        size_{csv.column(name_of(csv, kSize))},
        last_moment_{csv.header()[upper_] == "end"} {
    log_.source = source;
    log_.format = TraceFormat::lifetimes;
    log_.streams.push_back({});
    check_header();
  }

  AllocationLog run() {
    for (; csv_.next(); --rows_left_) {
      if (rows_left_ == 0) csv_.fail(MemoryBudget::problem());
      read_row();
    }
    std::ranges::stable_sort(log_.events, {}, [](const LogEvent& event) {
      return std::tuple{event.time_us, event.kind == EventKind::allocate};
    });
    log_.warnings = warnings_.lines();
    return std::move(log_);
  }

 private:
  void check_header() {
    for (std::size_t i = 0; i < csv_.header().size(); ++i) {
      if (i == id_ || i == lower_ || i == upper_ || i == size_) continue;
      warnings_.add("a column is passed over", quoted(csv_.header()[i]));
    }
  }

  void read_row() {
    const std::int64_t lower = read_time(lower_);
    const std::int64_t upper = read_time(upper_) + (last_moment_ ? 1 : 0);
    if (lower >= upper) {
      csv_.fail(fmt::format("lives from {} to {}, should begin before it ends", csv_[lower_],
                            csv_[upper_]));
    }
    const std::uint64_t bytes = csv_.natural(size_);
    if (bytes > kMostBytes - total_) csv_.fail("the sizes add up to more than 62 bits");
    total_ += bytes;
    const auto [before, fresh] = ids_.try_emplace(csv_[id_], csv_.line());
    if (!fresh) {
      csv_.fail(
          fmt::format("id {} was already used in line {}", quoted(csv_[id_]), before->second));
    }
    add(lower, upper, bytes);
  }

  [[nodiscard]] std::int64_t read_time(std::size_t column) const {
    const std::int64_t time = csv_.integer(column);
    if (time >= -kLatest && time <= kLatest) return time;
    csv_.fail(fmt::format("{} is {}, beyond 62 bits", csv_.header()[column], time));
  }

  void add(std::int64_t lower, std::int64_t upper, std::uint64_t bytes) {
    const auto block = static_cast<std::uint32_t>(log_.blocks.size());
    log_.blocks.push_back({.bytes = bytes});
    LogEvent event{.kind = EventKind::allocate, .block = block, .bytes = bytes, .time_us = lower};
    event.position = csv_.line();
    log_.events.push_back(event);
    event.kind = EventKind::free_requested;
    event.time_us = upper;
    log_.events.push_back(event);
  }

  Csv& csv_;
  std::uint64_t rows_left_;
  std::size_t id_;
  std::size_t lower_;
  std::size_t upper_;
  std::size_t size_;
  bool last_moment_;
  std::uint64_t total_ = 0;
  std::unordered_map<std::string_view, std::uint64_t> ids_;  // line, by id
  AllocationLog log_;
  Warnings warnings_;
};

}  // namespace

bool is_lifetimes(const Csv& csv) {
  return has(csv, name_of(csv, kLower)) && has(csv, name_of(csv, kUpper)) && has(csv, kSize.name);
}

AllocationLog read_lifetimes(Csv& csv, const std::string& source, std::uint64_t most_memory) {
  return LifetimesReader{csv, source, most_memory}.run();
}

}  // namespace millrace::trace
