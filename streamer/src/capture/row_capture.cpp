#include "millrace/streamer/row_capture.hpp"

#include "capture/state.hpp"

namespace millrace {

RowCapture::RowCapture(const Source& source, const CaptureEnvironment& environment,
                       const CaptureOptions& options)
    : state_(std::make_unique<State>(source, environment, options)) {
  source.bags.add_observer(*this);
}

RowCapture::~RowCapture() {
  try {
    stop();
  } catch (...) {  // the machine is being taken down
  }
}

void RowCapture::rows_updated(const RowUpdate& update) { state_->updated(update); }
void RowCapture::rows_will_move(StreamRef stream) { state_->will_move(stream); }
std::uint64_t RowCapture::mark_dirty(std::span<const TableRow> rows) {
  return state_->mark_dirty(rows);
}
std::uint64_t RowCapture::mark_all_dirty() { return state_->mark_all_dirty(); }
void RowCapture::capture_dirty(std::uint64_t step, StreamRef stream) {
  state_->capture_dirty(step, stream);
}
bool RowCapture::flush(StreamRef stream, Nanoseconds patience) {
  return state_->flush(stream, patience);
}
void RowCapture::stop() {
  state_->bags().remove_observer(*this);
  state_->stop();
}
ChangeTracker& RowCapture::tracker() noexcept { return state_->tracker(); }
bool RowCapture::dirty() const { return state_->dirty(); }
CaptureCounts RowCapture::counts() const { return state_->counts(); }
std::vector<StreamedTable> RowCapture::tables() const { return state_->tables(); }

}  // namespace millrace
