#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "capture/dirty_rows.hpp"
#include "capture/source_rows.hpp"
#include "millrace/memory/buffer.hpp"
#include "millrace/streamer/change_tracker.hpp"

namespace millrace {

/** @brief What rows of one content are read through: memory on the device, and pinned. */
class ChangeTracker::Chunk {
 public:
  /** @param stream  the first that rows are brought on */
  Chunk(const ChangeTracker& tracker, RowContent content, StreamRef stream);

  /** @brief Rows that surely fit, whichever they are. */
  [[nodiscard]] static std::size_t room(const capture::SourceRows& rows,
                                        const TrackerOptions& options) {
    return rows.sure_rows(bytes(rows, options));
  }
  [[nodiscard]] std::size_t room() const { return rows_.sure_rows(device_.size()); }
  [[nodiscard]] RowContent content() const noexcept { return content_; }

  /** @brief Brings these to the host, and waits. @return what the gather says */
  capture::CaptureHeader bring(const capture::DirtyRows::Collected& collected,
                               capture::DirtyRows& changed, StreamRef stream);
  /** @brief What was brought. */
  void read(CapturedRows& rows) const { rows_.read(host(), source_.tables, rows); }

 private:
  [[nodiscard]] static std::size_t bytes(const capture::SourceRows& rows,
                                         const TrackerOptions& options);
  [[nodiscard]] std::byte* host() const { return static_cast<std::byte*>(host_.data()); }
  void use_on(StreamRef stream);

  const RowContent content_;
  const Source& source_;
  const Memory& memory_;
  capture::SourceRows rows_;
  Buffer device_, host_;
  std::vector<StreamId> used_on_;
};

}  // namespace millrace
