#include "millrace/pipeline/data/criteo_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "data/criteo_line.hpp"
#include "data/line_reader.hpp"
#include "data/row_batch.hpp"
#include "data/shuffle.hpp"

namespace millrace {
namespace {

CriteoSettings checked(CriteoSettings settings) {
  if (settings.batch_size == 0) throw std::invalid_argument{"a batch has at least one example"};
  if (settings.shuffle && settings.shuffle_window == 0) {
    throw std::invalid_argument{"examples are shuffled in blocks of at least one"};
  }
  if (settings.rows.size() == 1) settings.rows.assign(kCriteoCategories, settings.rows[0]);
  if (settings.rows.size() != kCriteoCategories) {
    throw std::invalid_argument{fmt::format("{} numbers of rows are given for the {} tables",
                                            settings.rows.size(), kCriteoCategories)};
  }
  return settings;
}

InputSchema schema_of(const CriteoSettings& settings) {
  InputSchema schema{.value_type = settings.value_type};
  for (std::size_t i = 1; i <= kCriteoIntegers; ++i) schema.dense.push_back(fmt::format("I{}", i));
  for (std::size_t i = 1; i <= kCriteoCategories; ++i) {
    const std::string name = fmt::format("C{}", i);
    schema.sparse.push_back({name, name, settings.rows[i - 1]});
  }
  schema.check();
  return schema;
}

/** Reads the examples of an epoch, from its beginning. */
class Epoch {
 public:
  Epoch(const ByteSource& file, const CriteoSettings& settings, std::uint64_t number)
      : settings_(settings), lines_(file), malformed_(file.name, settings.malformed) {
    if (settings.shuffle) shuffle_ = Draws{*settings.shuffle}.branch(number);
  }

  /** Returns the next example; null at the end. */
  const CriteoRow* next() {
    if (!settings_.shuffle) return read() ? &row_ : nullptr;
    if (taken_ == order_.size() && !read_block()) return nullptr;
    return &block_[order_[taken_++]];
  }

  [[nodiscard]] const MalformedLines& malformed() const noexcept { return malformed_.lines(); }
  [[nodiscard]] bool at_end() const noexcept { return at_end_; }

  /**
   * Estimates the number of all examples, if the unread ones are as long as those that were read.
   */
  [[nodiscard]] std::optional<std::uint64_t> expected() const {
    if (at_end_) return examples_;
    const std::optional<double> share = lines_.share_read();
    if (!share || *share == 0) return std::nullopt;
    return static_cast<std::uint64_t>(std::llround(static_cast<double>(examples_) / *share));
  }

 private:
  bool read() {
    while (const auto line = lines_.next()) {
      if (line->empty()) continue;
      std::string problem =
          lines_.too_long() ? "it is too long" : parse_criteo_line(*line, settings_.rows, row_);
      if (problem.empty()) {
        ++examples_;
        return true;
      }
      malformed_.add(lines_.number(), std::move(problem), *line);
    }
    at_end_ = true;
    return false;
  }

  bool read_block() {
    block_.clear();
    while (block_.size() < settings_.shuffle_window && read()) block_.push_back(row_);
    order_ = drawn_order(block_.size(), shuffle_.branch(blocks_++));
    taken_ = 0;
    return !block_.empty();
  }

  const CriteoSettings& settings_;
  LineReader lines_;
  MalformedCounter malformed_;
  CriteoRow row_;
  std::uint64_t examples_ = 0;  ///< examples read so far
  bool at_end_ = false;
  Draws shuffle_{0};
  std::uint64_t blocks_ = 0;
  std::vector<CriteoRow> block_;
  std::vector<std::size_t> order_;
  std::size_t taken_ = 0;
};

}  // namespace

class CriteoSource::Reader {
 public:
  Reader(ByteSource file, const CriteoSettings& settings, const PinnedStaging& staging)
      : file_(std::move(file)),
        settings_(checked(settings)),
        staging_(staging),
        schema_(schema_of(settings_)),
        rows_(schema_) {}

  [[nodiscard]] const InputSchema& schema() const noexcept { return schema_; }
  [[nodiscard]] BatchPosition position() const noexcept { return position_; }

  void seek(BatchPosition position) {
    // A file of lines has no index, so it can only be read forward.
    if (position.epoch != position_.epoch || position.batch < position_.batch) begin_again();
    position_ = position;
  }

  std::optional<ModelInput> next() {
    try {
      return read_batch();
    } catch (...) {
      // The stream is at an unknown place in the batch. The next call reads the epoch again, up to
      // its position.
      keep_counts();
      begin_again();
      throw;
    }
  }

  MalformedLines malformed() const {
    const std::lock_guard lock{mutex_};
    return malformed_;
  }

  std::optional<std::uint64_t> examples_expected() const {
    const std::lock_guard lock{mutex_};
    return expected_;
  }

 private:
  std::optional<ModelInput> read_batch() {
    if (!epoch_) epoch_ = std::make_unique<Epoch>(file_, settings_, position_.epoch);
    for (; read_ < position_.batch; ++read_) {
      if (!fill()) break;
    }
    fill();
    keep_counts();
    if (rows_.size() == 0 || (settings_.drop_last && rows_.size() < settings_.batch_size)) {
      read_ = position_.batch;
      rows_.clear();
      return std::nullopt;
    }
    ModelInput batch = rows_.stage(staging_);
    read_ = ++position_.batch;
    return batch;
  }

  /** Reads the rows of the next batch. @return false if none are left */
  bool fill() {
    rows_.clear();
    while (rows_.size() < settings_.batch_size) {
      const CriteoRow* row = epoch_->next();
      if (row == nullptr) break;
      rows_.add(row->label, row->dense, row->ids);
    }
    return rows_.size() > 0;
  }

  void begin_again() {
    epoch_.reset();
    rows_.clear();
    read_ = 0;
  }

  void keep_counts() {
    if (!epoch_) return;
    const std::lock_guard lock{mutex_};
    malformed_ = epoch_->malformed();
    if (!exact_) expected_ = epoch_->expected();
    exact_ = exact_ || epoch_->at_end();
  }

  const ByteSource file_;
  const CriteoSettings settings_;
  PinnedStaging staging_;
  InputSchema schema_;
  RowBatch rows_;
  std::unique_ptr<Epoch> epoch_;  ///< null: the epoch is read from its beginning
  std::uint64_t read_ = 0;        ///< batches of the epoch read so far
  BatchPosition position_;

  // Another thread than the loading one shows the progress.
  mutable std::mutex mutex_;
  MalformedLines malformed_;
  std::optional<std::uint64_t> expected_;
  bool exact_ = false;  ///< `expected_` is the number of a whole epoch
};

CriteoSource::CriteoSource(ByteSource file, const CriteoSettings& settings,
                           const PinnedStaging& staging)
    : reader_(std::make_unique<Reader>(std::move(file), settings, staging)) {}

CriteoSource::~CriteoSource() = default;

const InputSchema& CriteoSource::schema() const { return reader_->schema(); }

std::optional<ModelInput> CriteoSource::do_next() { return reader_->next(); }

BatchPosition CriteoSource::position() const { return reader_->position(); }

void CriteoSource::do_seek(BatchPosition position) { reader_->seek(position); }

MalformedLines CriteoSource::malformed() const { return reader_->malformed(); }

std::optional<std::uint64_t> CriteoSource::examples_expected() const {
  return reader_->examples_expected();
}

}  // namespace millrace
