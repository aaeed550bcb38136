#include "ship/backlog.hpp"

namespace millrace::ship {

std::uint64_t Backlog::add(const StepBatch& next) {
  const Version after = empty() ? next.mark.after : mark_.after;
  mark_ = next.mark;
  mark_.after = after;
  ++steps_;
  std::uint64_t superfluous = 0;
  for (std::size_t i = 0; i < next.size(); ++i) {
    const std::size_t at = rows_.size();
    rows_.add_encoded(next.record(i));
    live_ += rows_.record(at).size();
    const auto [older, fresh] = newest_.try_emplace(key_of(next.row(i)), at);
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
    std::size_t& newest = newest_.find(key_of(rows_.row(i)))->second;
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
