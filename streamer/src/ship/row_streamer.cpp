#include "millrace/streamer/row_streamer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#include "millrace/device/mutex.hpp"
#include "ship/step_assembler.hpp"
#include "ship/step_times.hpp"

namespace millrace {
namespace {

/** Longest wait before the remaining time is checked again. */
constexpr Nanoseconds kLook = std::chrono::seconds{1};

std::uint64_t epoch_of(const StreamingOptions& options, const Lineage& lineage) {
  return options.epoch != 0 ? options.epoch : next_epoch(lineage);
}

std::vector<std::uint32_t> numbers_of(const StreamedBags& bags, const StreamSchema& schema) {
  std::vector<std::uint32_t> numbers;
  for (const TableView& table : bags.bags.tables()) {
    const std::string name = fmt::format("{}.{}", bags.prefix, table.name);
    const auto found = std::ranges::find(schema.tables, name, &StreamedTable::name);
    if (found == schema.tables.end()) {
      throw std::invalid_argument(fmt::format("table '{}' is not in the schema", name));
    }
    numbers.push_back(static_cast<std::uint32_t>(found - schema.tables.begin()));
  }
  return numbers;
}

/** Returns the skipped tables that this capture has, by their names in its EmbeddingBags. */
std::vector<std::string> skipped_of(const StreamedBags& bags,
                                    const std::vector<std::string>& skipped) {
  std::vector<std::string> own;
  for (const TableView& table : bags.bags.tables()) {
    const std::string name = fmt::format("{}.{}", bags.prefix, table.name);
    if (std::ranges::find(skipped, name) != skipped.end()) own.push_back(table.name);
  }
  return own;
}

void check_skipped(const StreamSchema& schema, const std::vector<std::string>& skipped) {
  for (const std::string& name : skipped) {
    if (std::ranges::find(schema.tables, name, &StreamedTable::name) != schema.tables.end()) {
      continue;
    }
    std::vector<std::string> names;
    for (const StreamedTable& table : schema.tables) names.push_back(table.name);
    throw std::invalid_argument(
        fmt::format("unknown table '{}' to skip (expected {})", name, fmt::join(names, ", ")));
  }
}

std::uint64_t rows_of(const StreamedBags& bags) {
  std::uint64_t rows = 0;
  for (const TableView& table : bags.bags.tables()) rows += table.rows;
  return rows;
}

}  // namespace

bool StreamingReport::complete() const noexcept {
  return std::ranges::all_of(sinks, [](const ShippingReport& sink) {
    return sink.given_up.empty() && sink.undelivered_steps == 0 && sink.missing == 0 &&
           sink.delivered == sink.offered;
  });
}

std::uint64_t next_epoch(const Lineage& lineage) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  // An epoch must be greater than all earlier ones, even if this machine's clock is slow.
  return std::max(static_cast<std::uint64_t>(now.count()), lineage.last().epoch + 1);
}

StreamSchema stream_schema(const SparseNNConfig& config, RowContent content,
                           const std::set<std::string>& dense) {
  StreamSchema schema{.content = content};
  const OptimizerKind kind = config.table_optimizer.kind;
  const auto add = [&](const char* prefix, const std::vector<TableConfig>& tables) {
    for (const TableConfig& table : tables) {
      const std::string name = fmt::format("{}.{}", prefix, table.name);
      const bool streamed = content == RowContent::weights_and_state && !dense.contains(name);
      const std::size_t state =
          streamed ? state_of_row(kind) + table.width * state_of_parameter(kind) : 0;
      schema.tables.push_back({.name = name,
                               .rows = table.whole_rows == 0 ? table.rows : table.whole_rows,
                               .width = static_cast<std::uint32_t>(table.width),
                               .state = static_cast<std::uint32_t>(state)});
    }
  };
  add("table", config.tables);
  add("weighted_table", config.weighted_tables);
  return schema;
}

class RowStreamer::State final : public CaptureReceiver, public Recapture {
 public:
  State(const StreamingEnvironment& environment, const StreamSchema& schema,
        const std::vector<StreamedBags>& bags, std::vector<std::shared_ptr<Sink>> sinks,
        const Lineage& lineage, const StreamingOptions& options)
      : environment_(environment),
        bags_(bags),
        lineage_(lineage),
        epoch_(epoch_of(options, lineage)),
        blocks_(options.shipping.when_full == QueuePolicy::block),
        assembler_({epoch_, environment.rank, environment.ranks, steps()}, bags.size()),
        step_times_(steps()),
        tickets_{Ticket{0, std::vector<std::uint64_t>(bags.size(), 0)}},
        requested_(bags.size(), 0) {
    if (sinks.empty()) throw std::invalid_argument{"a streamer needs at least one sink"};
    if (bags_.empty() || bags_.front().dense) {
      throw std::invalid_argument{
          "the first tables of a streamer must not be dense: they count the steps"};
    }
    for (const StreamedBags& source : bags_) all_rows_ += rows_of(source);
    check_skipped(schema, options.capture.skipped_tables);
    // Shippers request rows as soon as they run, so the captures must exist first.
    for (std::size_t i = 0; i < bags_.size(); ++i) {
      CaptureOptions capture = options.capture;
      capture.skipped_tables = skipped_of(bags_[i], options.capture.skipped_tables);
      captures_.push_back(std::make_unique<RowCapture>(
          RowCapture::Source{bags_[i].bags, i, numbers_of(bags_[i], schema)},
          CaptureEnvironment{environment_.context, environment_.pinned, environment_.executor,
                             *this},
          capture));
    }
    const StreamBeginning beginning{schema, epoch_, environment_.rank, environment_.ranks, lineage};
    const std::lock_guard lock{assembly_};
    try {
      for (std::shared_ptr<Sink>& sink : sinks) {
        shippers_.push_back(std::make_unique<Shipper>(std::move(sink), environment_.shipping, *this,
                                                      beginning, options.shipping));
      }
    } catch (...) {  // running shippers already use this object
      shippers_.clear();
      throw;
    }
  }

  [[nodiscard]] bool captured(const CapturedRows& rows) override {
    const std::lock_guard lock{assembly_};
    try {
      assembler_.add(rows);
      while (std::optional<ship::StepAssembler::Step> step = assembler_.take()) ship(*step);
      return true;
    } catch (const std::bad_alloc&) {  // unknown: which rows were added and offered
      const std::uint64_t ticket = recapture_all();
      for (const auto& shipper : shippers_) shipper->rows_lost(ticket);
      return false;
    }
  }

  [[nodiscard]] std::uint64_t recapture(const StepBatch& rows) override {
    std::vector<TableRow> dirty;
    dirty.reserve(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const RowRecord row = rows.row(i);
      dirty.push_back({row.table, row.row});
    }
    return ticket([&](RowCapture& capture) { return capture.mark_dirty(dirty); });
  }
  [[nodiscard]] std::uint64_t recapture_all() override {
    return ticket([](RowCapture& capture) { return capture.mark_all_dirty(); });
  }
  [[nodiscard]] std::uint64_t all_rows() const override { return all_rows_; }

  void step_done() {
    step_times_.done(steps());
    for (std::size_t i = 0; i < bags_.size(); ++i) {
      if (bags_[i].dense) capture_dense(*captures_[i]);
    }
  }

  /** @param ends  true at the end of a run: also recaptures rows that a sink has lost */
  bool flush(Nanoseconds at_most, bool ends = false) {
    const Nanoseconds until = environment_.shipping.now() + at_most;
    const auto left = [&] { return std::max(until - environment_.shipping.now(), Nanoseconds{0}); };
    bool all = true;
    for (std::size_t i = 0; i < bags_.size(); ++i) {
      if (bags_[i].dense) capture_dense(*captures_[i]);
      all = flush(*captures_[i], until) && all;
    }
    for (const auto& shipper : shippers_) {
      const bool drained = shipper->drain(left(), ends);
      all = all && (drained || !shipper->health().given_up.empty());
    }
    // A shipper may have recaptured rows meanwhile: they are dirty now.
    const bool dirty =
        std::ranges::any_of(captures_, [](const auto& capture) { return capture->dirty(); });
    if (!all || !dirty || left() == Nanoseconds{0}) return all && !dirty;
    return flush(left(), ends);
  }

  void stop(Nanoseconds at_most) {
    if (std::exchange(stopped_, true)) return;
    const Nanoseconds until = environment_.shipping.now() + at_most;
    // A sink that does not work uses all its time; the last quarter is reserved for the others.
    if (at_most > Nanoseconds{0}) flush(at_most - at_most / 4, true);
    const auto left = [&] { return std::max(until - environment_.shipping.now(), Nanoseconds{0}); };
    const auto close = [&] {
      for (const auto& shipper : shippers_) shipper->close(left());
    };
    if (blocks_) close();  // otherwise copiers would block in `offer`
    // Captures stop first, because they still offer steps to the shippers.
    for (const auto& capture : captures_) capture->stop();
    close();
    for (const auto& shipper : shippers_) {
      shipper->stop(left());
    }
  }

  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  [[nodiscard]] ChangeTracker& tracker(std::size_t bags) {
    if (bags >= bags_.size()) throw std::invalid_argument{"tracker: no tables have this index"};
    if (bags_[bags].dense) {
      throw std::invalid_argument{"tracker: dense tables change as a whole; no rows are tracked"};
    }
    return captures_[bags]->tracker();
  }
  [[nodiscard]] Lineage lineage() const {
    Lineage lineage = lineage_;
    lineage.extend({epoch_, steps()});
    return lineage;
  }
  [[nodiscard]] std::vector<ShippingHealth> health() const {
    std::vector<ShippingHealth> all;
    for (const auto& shipper : shippers_) all.push_back(shipper->health());
    return all;
  }
  [[nodiscard]] StreamingReport report() const {
    StreamingReport report{.epoch = epoch_};
    for (const auto& capture : captures_) report.captured.push_back(capture->counts());
    for (const auto& shipper : shippers_) report.sinks.push_back(shipper->report());
    return report;
  }

 private:
  /** The requests of one recapture, one for each capture. */
  struct Ticket {
    std::uint64_t number = 0;
    std::vector<std::uint64_t> requests;
  };

  /** Returns the step of the tables. */
  [[nodiscard]] std::uint64_t steps() const {
    std::uint64_t steps = 0;
    for (const StreamedBags& source : bags_) steps = std::max(steps, source.bags.steps());
    return steps;
  }

  // Flushes in short parts, because the device's clock may differ from the clock of the deadline.
  bool flush(RowCapture& capture, Nanoseconds until) {
    while (true) {
      const Nanoseconds left = std::max(until - environment_.shipping.now(), Nanoseconds{0});
      if (capture.flush(environment_.context.main(), std::min(left, kLook))) return true;
      if (left == Nanoseconds{0}) return false;
    }
  }

  void capture_dense(RowCapture& capture) {
    static_cast<void>(capture.mark_all_dirty());
    capture.capture_dirty(steps(), environment_.context.main());
  }

  template <typename Request>
  std::uint64_t ticket(Request&& request) {
    const std::lock_guard lock{ticketing_};
    // The lock covers the requests: concurrent recaptures must not mix their requests in one
    // ticket.
    for (std::size_t i = 0; i < captures_.size(); ++i) requested_[i] = request(*captures_[i]);
    // No row belongs to this rank, so no delivery will follow.
    if (std::ranges::count(requested_, 0U) == std::ssize(requested_)) return 0;
    ++newest_ticket_;
    try {
      tickets_.push_back({newest_ticket_, requested_});
    } catch (const std::bad_alloc&) {
      merge_ticket(tickets_.back());
    }
    return newest_ticket_;
  }

  // If host memory runs out, the newest two tickets are merged. The merged ticket passes when both
  // would have passed.
  void merge_ticket(Ticket& newest) {
    newest.number = newest_ticket_;
    for (std::size_t i = 0; i < requested_.size(); ++i) {
      newest.requests[i] = std::max(newest.requests[i], requested_[i]);
    }
  }

  /** Returns the newest ticket whose requests are all at most `requests`. */
  [[nodiscard]] std::uint64_t newest_ticket_of(const std::vector<std::uint64_t>& requests) {
    const std::lock_guard lock{ticketing_};
    const auto passed = [&](const Ticket& ticket) {
      return std::ranges::equal(ticket.requests, requests, std::less_equal{});
    };
    while (passed(tickets_.front())) {
      passed_ = tickets_.front().number;
      if (tickets_.size() == 1) break;
      tickets_.pop_front();
    }
    return passed_;
  }

  void ship(ship::StepAssembler::Step& step) {
    step.batch.commit.wall_time_ms = step_times_.of(step.batch.commit.step);
    Shipment shipment{.batch = std::move(step.batch),
                      .recaptures = newest_ticket_of(step.requests),
                      .captured = environment_.shipping.now()};
    // Each sink gets a copy; the last one gets the original.
    for (std::size_t i = 0; i + 1 < shippers_.size(); ++i) {
      shippers_[i]->offer(shipment, environment_.executor);
    }
    shippers_.back()->offer(std::move(shipment), environment_.executor);
  }

  const StreamingEnvironment environment_;
  const std::vector<StreamedBags> bags_;
  const Lineage lineage_;
  const std::uint64_t epoch_;
  const bool blocks_;  ///< `offer` blocks while a queue is full
  std::uint64_t all_rows_ = 0;
  bool stopped_ = false;

  Mutex assembly_;  ///< locked while a step is offered: shippers get the steps in order
  ship::StepAssembler assembler_;
  ship::StepTimes step_times_;
  std::vector<std::unique_ptr<Shipper>> shippers_;

  std::mutex ticketing_;
  std::deque<Ticket> tickets_;  ///< tickets that have not passed; if all have passed, the last one
  std::vector<std::uint64_t> requested_;  ///< requests of the newest ticket, one for each capture
  std::uint64_t newest_ticket_ = 0, passed_ = 0;
  /** Destroyed first, because they use the other members. */
  std::vector<std::unique_ptr<RowCapture>> captures_;
};

RowStreamer::RowStreamer(const StreamingEnvironment& environment, const StreamSchema& schema,
                         const std::vector<StreamedBags>& bags,
                         std::vector<std::shared_ptr<Sink>> sinks, const Lineage& lineage,
                         const StreamingOptions& options)
    : state_(
          std::make_unique<State>(environment, schema, bags, std::move(sinks), lineage, options)) {}

RowStreamer::~RowStreamer() { state_->stop(Nanoseconds{0}); }

std::uint64_t RowStreamer::epoch() const noexcept { return state_->epoch(); }
void RowStreamer::step_done() { state_->step_done(); }
bool RowStreamer::flush(Nanoseconds at_most) { return state_->flush(at_most); }
void RowStreamer::stop(Nanoseconds at_most) { state_->stop(at_most); }
ChangeTracker& RowStreamer::tracker(std::size_t bags) { return state_->tracker(bags); }
Lineage RowStreamer::lineage() const { return state_->lineage(); }
StreamingReport RowStreamer::report() const { return state_->report(); }
std::vector<ShippingHealth> RowStreamer::health() const { return state_->health(); }

}  // namespace millrace
