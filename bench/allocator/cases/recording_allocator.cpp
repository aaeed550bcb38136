#include "allocator/cases/recording_allocator.hpp"

#include <stdexcept>
#include <utility>

namespace millrace::bench {
namespace {

using Kind = ScriptStep::Kind;

// Marks a call of the allocator: its own records and waits are not steps of the program. Calls may
// be nested.
class Inside {
 public:
  explicit Inside(bool& flag) : flag_(flag), before_(std::exchange(flag, true)) {}
  ~Inside() { flag_ = before_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  bool& flag_;
  bool before_;
};

[[noreturn]] void refuse(const char* what) {
  throw std::logic_error{std::string{"a script of requests has no "} + what};
}

}  // namespace

RecordingAllocator::RecordingAllocator(Allocator& inner) : ForwardingAllocator(inner) {
  script_.streams = 0;
  script_.ends_steps = true;
  inner.device().device().add_observer(*this);
}

RecordingAllocator::~RecordingAllocator() { inner().device().device().remove_observer(*this); }

std::uint32_t RecordingAllocator::stream_number(StreamHandle stream) {
  const auto [it, added] = streams_.try_emplace(stream.value, script_.streams);
  if (added) ++script_.streams;
  return it->second;
}

void* RecordingAllocator::allocate(std::size_t bytes, StreamRef owner, StreamRef first_user,
                                   Tag tag) {
  if (owner.handle() != first_user.handle()) refuse("first user beside the owner");
  const Inside inside{inside_};
  void* const address = inner().allocate(bytes, owner, first_user, tag);
  if (address == nullptr) return nullptr;
  blocks_[address] = script_.blocks;
  add(Kind::allocate, stream_number(owner.handle()), script_.blocks++, bytes);
  return address;
}

void RecordingAllocator::deallocate(void* address) {
  if (address == nullptr) return;
  const Inside inside{inside_};
  add(Kind::free, 0, blocks_.at(address));
  inner().deallocate(address);
}

void RecordingAllocator::deallocate(void*, StreamRef) { refuse("free on another stream"); }
void RecordingAllocator::deallocate(void*, Point) { refuse("free behind a marker"); }
void RecordingAllocator::transfer(void*, StreamRef) { refuse("transfer"); }

void RecordingAllocator::record_use(void* address, StreamRef stream) {
  if (address == nullptr) return;
  const Inside inside{inside_};
  add(Kind::use, stream_number(stream.handle()), blocks_.at(address));
  inner().record_use(address, stream);
}

void RecordingAllocator::recorded(EventHandle event, StreamHandle stream) {
  if (inside_) return;
  const auto number = static_cast<std::uint32_t>(events_.size());
  const auto it = events_.try_emplace(event.value, number).first;
  add(Kind::record, stream_number(stream), it->second);
}

void RecordingAllocator::waited(StreamHandle stream, EventHandle event) {
  if (inside_) return;
  const auto it = events_.find(event.value);
  if (it != events_.end()) add(Kind::wait, stream_number(stream), it->second);
}

void RecordingAllocator::end_step() { add(Kind::end_step, 0, 0); }

}  // namespace millrace::bench
