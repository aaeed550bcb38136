#include "train/trace.hpp"

namespace millrace::cli {

TrainTrace::TrainTrace(const TraceForm& form, const std::string& file)
    : form_(form), output_(file, form.option) {}

TrainTrace::Watch::~Watch() {
  if (trace_ == nullptr) return;
  try {
    const auto streams = device_.accounting().streams;
    Device& device = device_.ordered().device();
    trace_->text_ = trace_->form_.render(device_.trace(),
                                         {.bytes = device.memory_info().total,
                                          .name = device.name(),
                                          .stream_name =
                                              [&](StreamId stream) {
                                                const auto known = streams.find(stream);
                                                return known == streams.end() ? "" : known->second;
                                              },
                                          .marks = steps_.marks()});
  } catch (const std::exception&) {  // the device is lost, so no trace exists
    trace_->text_.clear();
  }
}

void TrainTrace::write() const {
  if (!text_.empty()) output_.write(text_);
}

void TrainTrace::write_after_error() const noexcept {
  try {
    write();
  } catch (const std::exception&) {
  }
}

}  // namespace millrace::cli
