#include "millrace/streamer/step_batch.hpp"

#include <cstring>
#include <stdexcept>

namespace millrace {
namespace {

template <typename T>
T at(const std::byte* record, std::size_t offset) noexcept {
  T value;
  std::memcpy(&value, record + offset, sizeof value);
  return value;
}

}  // namespace

void StepBatch::reserve(std::size_t rows, std::size_t bytes) {
  ends_.reserve(rows);
  records_.reserve(bytes);
}

void StepBatch::add(const RowRecord& row) {
  append_record(records_, row);
  ends_.push_back(records_.size());
  commit.rows = ends_.size();
}

void StepBatch::add_encoded(std::span<const std::byte> record) {
  records_.insert(records_.end(), record.begin(), record.end());
  ends_.push_back(records_.size());
  commit.rows = ends_.size();
}

void StepBatch::replace(std::size_t i, std::span<const std::byte> newer) {
  const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
  if (ends_[i] - begin != newer.size()) {
    throw std::invalid_argument{"a replacement record has another length"};
  }
  std::memcpy(records_.data() + begin, newer.data(), newer.size());
}

std::span<const std::byte> StepBatch::record(std::size_t i) const noexcept {
  const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::span{records_}.subspan(begin, ends_[i] - begin);
}

RowRecord StepBatch::row(std::size_t i) const noexcept {
  const std::span<const std::byte> bytes = record(i);
  const std::byte* const begin = bytes.data();
  const auto* const numbers = reinterpret_cast<const float*>(begin + kRecordHeader);
  const auto width = at<std::uint32_t>(begin, 28), state = at<std::uint32_t>(begin, 32);
  return {.version = record_version(bytes),
          .table = at<std::uint32_t>(begin, 24),
          .row = at<std::int64_t>(begin, 40),
          .weights = {numbers, width},
          .state = {numbers + width, state}};
}

}  // namespace millrace
