#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "millrace/streamer/sink.hpp"
#include "sink/deadline.hpp"
#include "sink/file/rank_writer.hpp"

namespace millrace::sink {

/**
 * @brief Appends rows to files in a folder (docs/sinks.md).
 *
 * Written data survives the end of the process; flushed data survives the end of the machine.
 */
class FileSink final : public Sink {
 public:
  explicit FileSink(FileOptions options) : options_(std::move(options)) {}

  [[nodiscard]] std::string name() const override { return "file:" + options_.folder.string(); }
  [[nodiscard]] SinkState state() override;
  void begin(const StreamSchema& schema) override;
  void write(const StepBatch& batch, std::string_view position = {}) override;
  void flush() override;
  void read(const std::function<void(const RowRecord&)>& visit) override;
  [[nodiscard]] std::uint64_t snapshot_request() override;
  void audit(std::uint32_t rank, std::uint64_t epoch) override;
  void finish_by(std::chrono::steady_clock::time_point end) noexcept override {
    finish_by_ = end.time_since_epoch().count();
  }

 private:
  struct Writing {
    std::mutex mutex;
    std::optional<RankWriter> writer;  ///< none: nothing was written yet
    bool lost = false;  ///< a flush, perhaps another rank's, lost rows; `audit` was not called yet
  };
  struct Tail {
    SegmentName segment;
    WholePart part;
  };

  [[nodiscard]] const StreamSchema* schema();
  [[nodiscard]] NumberedPosition numbered(std::string_view position);
  void begin_to_write(Writing& writing, const StreamSchema& tables, std::uint32_t rank);
  void see_others(SinkState& state, const Segments& segments);
  void go_on(Tail& tail, const std::vector<SegmentName>& segments) const;
  void flush(Writing& writing);
  void look_for_gap(std::uint32_t rank);

  FileOptions options_;
  Deadline::Shared finish_by_ = Deadline::kNone;
  std::mutex mutex_;  ///< protects all members below; a rank's mutex may be locked while this is
  std::optional<StreamSchema> schema_;
  std::map<std::uint32_t, Writing> ranks_;
  std::map<std::uint32_t, Tail> tails_;      ///< for ranks that other processes write
  std::set<std::uint32_t> gaps_looked_for_;  ///< ranks that were checked for gaps
  NumberedPosition position_;
  std::optional<std::uint64_t> positions_;  ///< number of positions so far; none: not read yet
};

}  // namespace millrace::sink
