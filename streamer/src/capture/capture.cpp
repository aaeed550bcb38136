#include "millrace/streamer/capture.hpp"

#include "capture/state.hpp"

namespace millrace {

Capture::Capture(const Source& source, const Setting& setting, const CaptureOptions& options)
    : state_(std::make_unique<State>(source, setting, options)) {
  source.bags.add_observer(*this);
}

Capture::~Capture() {
  try {
    stop();
  } catch (...) {  // the machine is being taken down
  }
}

void Capture::rows_updated(const RowUpdate& update) { state_->updated(update); }
void Capture::rows_will_move(StreamRef stream) { state_->will_move(stream); }
std::uint64_t Capture::mark_all() { return state_->mark_all(); }
std::uint64_t Capture::mark(std::span<const TableRow> rows) { return state_->mark(rows); }
void Capture::tell_dirty(std::uint64_t step, StreamRef stream) { state_->tell_dirty(step, stream); }
bool Capture::flush(StreamRef stream, Nanoseconds patience) {
  return state_->flush(stream, patience);
}
void Capture::stop() {
  state_->bags().remove_observer(*this);
  state_->stop();
}
bool Capture::dirty() const { return state_->dirty(); }
CaptureCounts Capture::counts() const { return state_->counts(); }
std::vector<StreamedTable> Capture::tables() const { return state_->tables(); }

}  // namespace millrace
