#include "allocator/subjects/peer.hpp"

namespace millrace::bench {

Peer::Peer(Machine& machine, unsigned streams) : machine_(machine), driver_(machine.driver()) {
  set_current_machine(&machine);
  while (streams_.size() < streams) streams_.push_back(machine.create_stream(false));
}

Peer::~Peer() {
  for (const EventHandle event : events_) driver_.destroy_event(event);
  if (used_.value != nullptr) driver_.destroy_event(used_);
}

void Peer::free_used(void* address, std::size_t bytes, unsigned stream,
                     std::span<const unsigned> users) {
  if (used_.value == nullptr) used_ = driver_.create_event();
  for (const unsigned user : users) {
    driver_.record(used_, handle(user));
    driver_.wait(handle(stream), used_);
  }
  free(address, bytes, stream);
}

EventHandle Peer::event(unsigned number) {
  while (number >= events_.size()) events_.push_back(driver_.create_event());
  return events_[number];
}

void Peer::record(unsigned number, unsigned stream) {
  count_program_call();
  driver_.record(event(number), handle(stream));
}

void Peer::wait(unsigned stream, unsigned number) {
  count_program_call();
  driver_.wait(handle(stream), event(number));
}

void Peer::use_one_shot_stream(std::size_t bytes) {
  const auto stream = static_cast<unsigned>(streams_.size());
  free(allocate(bytes, stream), bytes, stream);
}

}  // namespace millrace::bench
