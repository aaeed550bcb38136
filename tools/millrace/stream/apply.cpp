#include "stream/apply.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <optional>
#include <stdexcept>

#include "cli/error.hpp"
#include "cli/output.hpp"
#include "cli/status_line.hpp"
#include "cli/text.hpp"
#include "cli/values.hpp"
#include "millrace/device/thread_executor.hpp"
#include "millrace/pipeline/data/byte_size.hpp"
#include "millrace/streamer/applier.hpp"
#include "train/interrupt.hpp"

namespace millrace::cli {
namespace {

using namespace std::chrono_literals;

constexpr int kNotWhole = 3;

struct ApplyArguments {
  std::string from, to;
  std::optional<std::string> until_idle;
};

template <typename Open>
auto opened(Open&& open, const std::string& spec, const char* option, const char* right) {
  try {
    return open(spec);
  } catch (const std::invalid_argument& error) {
    throw UsageError{error.what(), option, right};
  }
}

std::string describe(const SinkState& copy, const ApplyReport& report) {
  const auto counts = copy.counts();
  std::string text = fmt::format("{} batches, {} rows, {}", report.batches, report.rows,
                                 format_bytes(report.bytes));
  text += counts ? fmt::format("; all ranks told step {} of epoch {}", counts->step, counts->epoch)
                 : std::string{"; not all ranks have told a step yet"};
  if (report.gaps > 0) {
    text +=
        fmt::format("; {} gaps, all rows asked for anew {} times", report.gaps, report.snapshots);
  }
  if (report.retries > 0) {
    text +=
        fmt::format("; {} calls made again, the last for: {}", report.retries, report.last_error);
  }
  return text;
}

class Application {
 public:
  explicit Application(const ApplyArguments& given)
      : until_idle_(idle_of(given)),
        source_(opened(open_source, given.from, "--from", "file:DIR, kafka://BROKERS/TOPIC")),
        copy_(opened(open_sink, given.to, "--to", "rocksdb:DIR, redis://HOST:PORT, file:DIR")),
        applier_(*source_, *copy_, executor_) {
    if (given.from == given.to) {
      throw UsageError{"a copy of itself is none", "--to", "another place than --from"};
    }
  }

  /** @return whether the copy lacks nothing */
  bool run() {
    StatusLine status;
    const auto go_on = [&] { return !interrupt_.asked() && !idle(); };
    while (go_on()) {
      if (applier_.apply_next(200ms, go_on)) last_ = executor_.now();
      say_gaps();
      if (status.due()) status.show(fmt::format("{} rows applied", applier_.report().rows));
    }
    applier_.flush([&, until = executor_.now() + 10s] { return executor_.now() < until; });
    const ApplyReport report = applier_.report();
    fmt::print("{}: {}\n", copy_->name(), describe(copy_->state(), report));
    if (!report.whole) fmt::print("it lacks rows that were told of, or will be\n");
    if (report.failing) fmt::print("it may lack more: the last call failed\n");
    return report.whole && !report.failing;
  }

 private:
  [[nodiscard]] static std::optional<Nanoseconds> idle_of(const ApplyArguments& given) {
    if (!given.until_idle) return std::nullopt;
    const double seconds = read_number("--until-idle", *given.until_idle, 0.001, 1e6);
    return std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>{seconds});
  }
  void say_gaps() {
    const ApplyReport report = applier_.report();
    if (report.gaps == said_) return;
    said_ = report.gaps;
    spdlog::warn("{}; all rows are asked for anew", report.last_gap);
  }
  [[nodiscard]] bool idle() { return until_idle_ && executor_.now() - last_ > *until_idle_; }

  const std::optional<Nanoseconds> until_idle_;
  const Interrupt interrupt_;
  ThreadExecutor executor_;
  const std::unique_ptr<RecordSource> source_;
  const std::unique_ptr<Sink> copy_;
  Applier applier_;
  std::uint64_t said_ = 0;              ///< gaps
  Nanoseconds last_ = executor_.now();  ///< when something was applied
};

}  // namespace

void add_stream_apply(CLI::App& stream) {
  CLI::App* const command = stream.add_subcommand(
      "apply",
      "Keeps a copy up to date with what was told to a file or a topic: the newest version of each "
      "row; goes on where it stopped");
  const auto given = std::make_shared<ApplyArguments>();
  command->add_option("--from", given->from, "file:DIR, kafka://BROKERS/TOPIC")
      ->type_name("SOURCE")
      ->required();
  command->add_option("--to", given->to, "rocksdb:DIR, redis://HOST:PORT, file:DIR")
      ->type_name("SINK")
      ->required();
  command
      ->add_option("--until-idle", given->until_idle,
                   "End when nothing was told for so long; default: go on until Ctrl-C")
      ->type_name("SECONDS")
      ->take_last();
  command->callback([given] {
    if (!Application{*given}.run()) throw Ended{kNotWhole};
  });
}

}  // namespace millrace::cli
