#include "memory/stream_uses.hpp"

namespace millrace {

bool StreamUses::add_to_many(StreamRef stream) {
  if (places_ == nullptr) {
    if (place_among_few(stream.id()) != size()) return false;
    auto places = std::make_unique<std::unordered_map<StreamId, std::size_t>>();
    for (const StreamRef known : *this) places->try_emplace(known.id(), places->size());
    places_ = std::move(places);
  }
  ordering::count_steps(1);
  const auto [at, is_new] = places_->try_emplace(stream.id(), size());
  if (!is_new) return false;
  try {
    push_back(stream);
  } catch (...) {
    places_->erase(at);
    throw;
  }
  return true;
}

void StreamUses::remove(StreamId stream) {
  if (places_ == nullptr) {
    erase_if([&](const StreamRef known) { return known.id() == stream; });
    return;
  }
  ordering::count_steps(1);
  const auto found = places_->find(stream);
  if (found == places_->end()) return;
  StreamRef& place = items()[found->second];
  place = items()[size() - 1];
  places_->at(place.id()) = found->second;
  places_->erase(found);
  pop_back();
  if (empty()) places_.reset();
}

}  // namespace millrace
