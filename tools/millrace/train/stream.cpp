#include "train/stream.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

#include "cli/error.hpp"
#include "cli/status_line.hpp"
#include "cli/values.hpp"
#include "millrace/text/json_document.hpp"

namespace millrace::cli {
namespace {

constexpr auto kLook = std::chrono::milliseconds{100};  ///< interval between two looks at the sinks

unsigned rank_of(const ProcessGroup* group) { return group == nullptr ? 0 : group->rank(); }

std::vector<std::string> names_of(const std::vector<std::shared_ptr<Sink>>& sinks, unsigned rank) {
  std::vector<std::string> names;
  for (const auto& sink : sinks) {
    names.push_back((rank == 0 ? "" : fmt::format("rank {}: ", rank)) + sink->name());
  }
  return names;
}

/**
 * Describes which rank holds and streams which rows. If it differs from the checkpoint's placement,
 * the new ranks do not know which rows the old ranks have delivered.
 */
std::string placement_of(const TrainPlan& plan, std::vector<std::string> skipped) {
  std::ranges::sort(skipped);
  std::string text = plan.group.empty()
                         ? "one rank"
                         : fmt::format("{} ranks {}", plan.sharding.ranks, plan.sharding_json);
  if (!skipped.empty()) text += fmt::format("; without {}", fmt::join(skipped, ", "));
  return text;
}

/** The state of the stream in a checkpoint. */
struct CheckpointedStream {
  Lineage lineage;
  std::string placement;
};

const std::string& text_at(const nlohmann::json& document, const char* key) {
  const auto found = document.is_object() ? document.find(key) : document.end();
  if (found == document.end() || !found->is_string()) {
    throw std::invalid_argument{fmt::format("the text '{}' does not exist", key)};
  }
  return found->get_ref<const std::string&>();
}

CheckpointedStream parse_stream(const std::string& text, const std::string& where) {
  try {
    const nlohmann::json document = text::parse_document(text, "its stream");
    return {parse_lineage(text_at(document, "lineage")), text_at(document, "placement")};
  } catch (const std::invalid_argument& error) {
    throw UsageError{
        fmt::format("the checkpoint's data about its stream cannot be read: {}", error.what()),
        where, "a checkpoint that this program has written"};
  }
}

Lineage lineage_of(const std::string& from, const std::string& placement) {
  if (from.empty()) return {};
  CheckpointedStream stream = parse_stream(from, "--load");
  return stream.placement == placement ? std::move(stream.lineage) : Lineage{};
}

std::set<std::string> dense_tables(const SparseNNConfig& config, const TrainPlan& plan) {
  std::set<std::string> dense;
  const auto add = [&](const char* prefix, const auto& tables, const auto& placements) {
    for (std::size_t i = 0; i < placements.size(); ++i) {
      if (placements[i].sharding != Sharding::data_parallel) continue;
      dense.insert(fmt::format("{}.{}", prefix, tables[i].name));
    }
  };
  add("table", config.tables, plan.sharding.tables);
  add("weighted_table", config.weighted_tables, plan.sharding.weighted_tables);
  return dense;
}

/** Dense tables are the same on every rank, therefore only rank 0 streams them. */
std::vector<StreamedBags> bags_of(SparseNN& model, bool first) {
  std::vector<StreamedBags> bags{{model.bags(), "table"}};
  if (!model.weighted_bags().tables().empty()) {
    bags.push_back({model.weighted_bags(), "weighted_table"});
  }
  const auto add = [&](EmbeddingBags* dense, const char* prefix) {
    if (!first || dense == nullptr || dense->tables().empty()) return;
    bags.push_back({*dense, prefix, true});
  };
  add(model.dense_bags(), "table");
  add(model.weighted_dense_bags(), "weighted_table");
  return bags;
}

void check_skipped(const std::vector<std::string>& skipped, const StreamSchema& schema) {
  std::vector<std::string> names;
  for (const StreamedTable& table : schema.tables) names.push_back(table.name);
  for (const std::string& name : skipped) {
    static_cast<void>(read_name("--stream-skip", "table", name, names));
  }
}

/** Returns the epoch of rank 0 on all ranks. */
std::uint64_t epoch_of_all(ProcessGroup* group, const Lineage& lineage) {
  const std::uint64_t here = next_epoch(lineage);
  if (group == nullptr) return here;
  const ExchangedSizes told = group->exchange_sizes(
      RankState::ok, std::vector<std::int64_t>(group->size(), static_cast<std::int64_t>(here)));
  return static_cast<std::uint64_t>(told.values.front());
}

}  // namespace

TrainStream::TrainStream(const StreamingOptions& options, std::vector<std::shared_ptr<Sink>> sinks,
                         const StreamedTrainer& trainer, const std::string& from)
    : placement_(placement_of(trainer.plan, options.capture.skipped_tables)),
      speaks_(rank_of(trainer.group) == 0),
      watch_(names_of(sinks, rank_of(trainer.group)), speaks_ && ::isatty(STDERR_FILENO) == 0) {
  const Lineage lineage = lineage_of(from, placement_);
  StreamingOptions of_run = options;
  of_run.epoch = epoch_of_all(trainer.group, lineage);
  const StreamSchema schema = stream_schema(trainer.config, options.capture.content,
                                            dense_tables(trainer.config, trainer.plan));
  check_skipped(options.capture.skipped_tables, schema);
  const std::uint32_t rank = trainer.group == nullptr ? 0 : trainer.group->rank();
  const std::uint32_t ranks = trainer.group == nullptr ? 1 : trainer.group->size();
  try {
    streamer_ = std::make_unique<RowStreamer>(
        StreamingEnvironment{trainer.trainer.context(), trainer.device.staging().pinned,
                             trainer.device.executor(), threads_, rank, ranks},
        schema, bags_of(trainer.trainer.model(), rank == 0), std::move(sinks), lineage, of_run);
  } catch (const std::invalid_argument& error) {
    throw UsageError{error.what(), "--stream", "as docs/streamer.md says"};
  }
}

void TrainStream::step_done() {
  streamer_->step_done();
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < kLook) return;
  looked_ = now;
  look();
}

void TrainStream::look() {
  for (const std::string& line : watch_.news(streamer_->health())) {
    spdlog::warn("{}", line);
  }
}

std::string TrainStream::status() const { return watch_.status(streamer_->health()); }

StreamingReport TrainStream::stop(Nanoseconds at_most) {
  std::atomic<bool> stopped = false;
  std::thread watcher{[&] {
    StatusLine line;
    while (!stopped) {
      look();
      if (speaks_ && line.due()) {
        line.show(fmt::format("delivering what is left, for {:.0f} s of {:.0f} at most   {}",
                              line.seconds(), std::chrono::duration<double>(at_most).count(),
                              status()));
      }
      std::this_thread::sleep_for(kLook / 10);
    }
  }};
  streamer_->stop(at_most);
  stopped = true;
  watcher.join();
  return streamer_->report();
}

std::string TrainStream::for_checkpoint() const {
  return nlohmann::json{{"lineage", to_string(streamer_->lineage())}, {"placement", placement_}}
      .dump();
}

std::string what_it_lacks(const ShippingReport& sink) {
  std::string lacks;
  if (!sink.given_up.empty()) lacks = fmt::format("given up: {}", sink.given_up);
  if (sink.undelivered_steps > 0) {
    lacks += fmt::format("{}{} steps with {} rows were not delivered", lacks.empty() ? "" : "; ",
                         sink.undelivered_steps, sink.undelivered_rows);
    if (!sink.last_error.empty()) lacks += fmt::format(" ({})", sink.last_error);
  } else if (sink.missing > 0) {
    lacks += fmt::format("{}{} rows are missing", lacks.empty() ? "" : "; ", sink.missing);
  }
  return lacks;
}

Lineage lineage_in(const std::string& stream, const std::string& where) {
  return stream.empty() ? Lineage{} : parse_stream(stream, where).lineage;
}

}  // namespace millrace::cli
