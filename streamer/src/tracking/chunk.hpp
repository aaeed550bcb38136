#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "capture/source_rows.hpp"
#include "millrace/memory/buffer.hpp"
#include "millrace/streamer/change_tracker.hpp"
#include "tracking/picked_rows.hpp"

namespace millrace {

/** @brief The buffers for reads of one content: one on the device, one in pinned memory. */
class ChangeTracker::Chunk {
 public:
  /** @param stream  the first stream that reads */
  Chunk(const ChangeTracker& tracker, RowContent content, StreamRef stream);

  /** @brief Returns the number of rows that fit, whichever rows they are. */
  [[nodiscard]] static std::size_t room(const capture::SourceRows& rows,
                                        const TrackerOptions& options) {
    return rows.sure_rows(bytes(rows, options));
  }
  [[nodiscard]] std::size_t room() const { return rows_.sure_rows(device_.size()); }
  [[nodiscard]] RowContent content() const noexcept { return content_; }

  /** @brief Copies rows to the host, and waits. @return the header of the gather */
  capture::CaptureHeader bring(capture::PickedRows& picked, capture::DirtyRows& changed,
                               StreamRef stream);
  /** @brief Describes the rows that `bring` copied. */
  void read(CapturedRows& rows) const { rows_.read(host(), source_.tables, rows); }

 private:
  [[nodiscard]] static std::size_t bytes(const capture::SourceRows& rows,
                                         const TrackerOptions& options);
  [[nodiscard]] std::byte* host() const { return static_cast<std::byte*>(host_.data()); }
  void use_on(StreamRef stream);

  const RowContent content_;
  const Source& source_;
  const TrackerEnvironment& environment_;
  capture::SourceRows rows_;
  Buffer device_, host_;
  std::vector<StreamId> used_on_;
};

}  // namespace millrace
