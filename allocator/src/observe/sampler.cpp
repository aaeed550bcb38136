#include "millrace/observe/sampler.hpp"

#include <algorithm>
#include <stdexcept>

namespace millrace {

void SampledSeries::add(double value, Nanoseconds now) {
  if (count_ == 0) {
    first_at_ = now;
    peak_ = value;
  } else if (now < last_at_) {
    throw std::invalid_argument{"a sample lies before the last one"};
  } else {
    weighted_sum_ += last_ * static_cast<double>((now - last_at_).count());
  }
  ++count_;
  last_ = value;
  last_at_ = now;
  peak_ = std::max(peak_, value);
}

double SampledSeries::mean() const noexcept {
  const auto span = static_cast<double>((last_at_ - first_at_).count());
  return span > 0 ? weighted_sum_ / span : last_;
}

void FootprintSampler::sample(Nanoseconds now) {
  const MemoryGauges bytes = allocator_.statistics().bytes;
  const UsableBytes usable = allocator_.usable(stream_);
  requested_.add(static_cast<double>(bytes.requested.current), now);
  allocated_.add(static_cast<double>(bytes.allocated.current), now);
  active_.add(static_cast<double>(bytes.active.current), now);
  reserved_.add(static_cast<double>(bytes.reserved.current), now);
  usable_.add(static_cast<double>(usable.total), now);
  stranded_.add(static_cast<double>(usable.stranded), now);
  fragmentation_.add(usable.fragmentation(), now);
}

}  // namespace millrace
