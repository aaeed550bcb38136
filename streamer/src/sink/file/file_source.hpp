#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "millrace/streamer/sink.hpp"
#include "sink/file/segment.hpp"

namespace millrace::sink {

/**
 * @brief Reads the folder of a FileSink while it grows: each rank in its order, and always the rank
 * with the oldest step.
 *
 * A position has for each rank: the number of the segment, the offset after the last batch, the
 * name of the log, and the version of that batch's commit:
 * "0:3:4096:77:1764000000000:9,1:2:128:...". If the segment was compacted since then, reading
 * continues after that commit in its replacement.
 */
class FileSource final : public RecordSource {
 public:
  explicit FileSource(std::filesystem::path folder) : folder_(std::move(folder)) {}

  [[nodiscard]] std::string name() const override { return "file:" + folder_.string(); }
  void seek(std::string_view position) override;
  [[nodiscard]] std::optional<StreamSchema> schema() override;
  void take_schema(const StreamSchema& schema) override;
  [[nodiscard]] std::optional<Next> next(std::chrono::nanoseconds patience) override;
  [[nodiscard]] Left left() override;
  void ask_for_snapshot() override;

 private:
  struct LogPosition {
    std::uint64_t number = 0;  ///< number of a segment; 0: before the first one
    std::uint64_t offset = 0;
    std::uint64_t log = 0;  ///< the log's name
    Version commit{};       ///< the last commit before it
  };
  struct Cursor {
    LogPosition returned;   ///< after the batch that `next` returned
    LogPosition read;       ///< after the batch that was read ahead
    SegmentName segment{};  ///< segment of `read`
    std::optional<StepBatch> ahead{};
    std::unique_ptr<SegmentReader> reader{};
    std::uint64_t looked_at = 0;  ///< size of the file when no whole batch followed
  };
  using Cursors = std::map<std::uint32_t, Cursor>;

  [[nodiscard]] Cursors parse(std::string_view position) const;
  [[nodiscard]] std::string position() const;
  [[nodiscard]] std::optional<Next> take();
  [[nodiscard]] Cursor* look();
  [[nodiscard]] Cursor* oldest_ahead();
  [[nodiscard]] std::uint64_t bytes_left(const LogPosition& returned,
                                         const std::vector<SegmentName>& segments) const;
  void read_ahead(std::uint32_t rank, Cursor& cursor, const std::vector<SegmentName>& segments);
  [[nodiscard]] std::size_t place_among(const std::vector<SegmentName>& segments,
                                        const Cursor& cursor) const;
  void go_to_place(Cursor& cursor, const std::vector<SegmentName>& segments) const;
  void open(Cursor& cursor, const SegmentName& segment) const;
  [[nodiscard]] std::optional<StepBatch> read_batch(std::uint32_t rank, Cursor& cursor,
                                                    bool is_last);
  [[nodiscard]] std::optional<StepBatch> parse_batch(std::uint32_t rank, Cursor& cursor);
  void check_log(Cursor& cursor, std::uint64_t log) const;
  void check(const RowRecord& row, const SegmentReader& reader) const;
  [[noreturn]] void lose(const std::string& what) const;

  std::filesystem::path folder_;
  std::optional<StreamSchema> schema_;
  Segments segments_;  ///< listed when the earlier list had no more batches
  Cursors cursors_;
};

}  // namespace millrace::sink
