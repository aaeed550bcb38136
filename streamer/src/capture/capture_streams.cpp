#include "capture/capture_streams.hpp"

#include <algorithm>
#include <utility>

#include "capture/succeeds.hpp"

namespace millrace::capture {

void CaptureStreams::open(const Wanted& wanted) {
  Stream& main = context_.main();
  // Main allocates the memory of the bitmap and of the slots. Another stream waits for this event
  // before its first use of them.
  ordered().record(made_, main);
  last_ = made_;
  used_on_.push_back(main.id());
  if (wanted.gather) gather_.emplace(ordered(), StreamOptions{.name = "gather"});
  if (wanted.copy) copy_.emplace(ordered(), StreamOptions{.name = "capture"});
}

void CaptureStreams::close() noexcept {
  static_cast<void>(succeeds([&] {
    // The memory returns to main when it is freed, right after this.
    context_.main().wait(last_);
    if (gather_) context_.main().wait_stream(*gather_);
    if (copy_) context_.main().wait_stream(*copy_);
  }));
}

StreamRef CaptureStreams::begin(StreamRef stream) {
  if (gather_) {
    // An event of this update only: the gather does not wait for later work on the caller's stream.
    Event updated;
    ordered().record(updated, stream);
    gather_->wait(updated);
    stream = *gather_;
  }
  if (std::ranges::find(used_on_, stream.id()) == used_on_.end()) {
    ordered().wait(stream, made_);
    if (stream.id().valid()) used_on_.push_back(stream.id());
  }
  return stream;
}

void CaptureStreams::memory_made(StreamRef on) {
  ordered().record(made_, context_.main());
  ordered().wait(on, made_);
}

void CaptureStreams::operated(StreamRef on) { ordered().record(last_, on); }

void CaptureStreams::gathered(const Event& event) {
  last_ = event;
  // Only gathers on their own stream. On the update's stream the next update follows the gather
  // anyway.
  if (gather_) unwaited_ = event;
}

int CaptureStreams::before_move(StreamRef stream) {
  if (!unwaited_) return 0;
  const Event gathered = *std::exchange(unwaited_, std::nullopt);
  if (succeeds([&] { ordered().wait(stream, gathered); })) return 0;
  // Rows are about to change while the gather reads them. If the stream cannot wait, the host
  // waits. 2: neither has waited, so the gather may have read half-changed rows.
  return succeeds([&] { ordered().synchronize(gathered); }) ? 1 : 2;
}

}  // namespace millrace::capture
