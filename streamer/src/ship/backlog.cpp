#include "ship/backlog.hpp"

namespace millrace::ship {

std::size_t Backlog::KeyHash::operator()(const Key& key) const noexcept {
  return (static_cast<std::size_t>(key.second) * 0x9E3779B97F4A7C15U) ^ (key.first * 0x85EBCA6BU);
}

std::uint64_t Backlog::add(const StepBatch& next) {
  const Version after = empty() ? next.mark.after : mark_.after;
  mark_ = next.mark;
  mark_.after = after;
  ++steps_;
  std::uint64_t superfluous = 0;
  for (std::size_t i = 0; i < next.size(); ++i) {
    const RowRecord row = next.row(i);
    const std::size_t at = rows_.size();
    rows_.add_encoded(next.record(i));
    live_ += rows_.record(at).size();
    const auto [older, fresh] = newest_.try_emplace({row.table, row.row}, at);
    if (fresh) continue;
    ++superfluous;
    live_ -= rows_.record(older->second).size();
    older->second = at;
  }
  if (rows_.bytes() > 2 * live_) squeeze();
  return superfluous;
}

void Backlog::squeeze() {
  std::vector<bool> kept(rows_.size());
  std::size_t rows = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const RowRecord row = rows_.row(i);
    std::size_t& newest = newest_.find({row.table, row.row})->second;
    kept[i] = newest == i;
    if (kept[i]) newest = rows++;
  }
  rows_.keep(kept);
}

StepBatch Backlog::take() {
  if (rows_.size() != newest_.size()) squeeze();
  StepBatch all = std::move(rows_);
  const std::uint64_t rows = all.size();
  all.mark = mark_;
  all.mark.rows = rows;
  *this = {};
  return all;
}

}  // namespace millrace::ship
