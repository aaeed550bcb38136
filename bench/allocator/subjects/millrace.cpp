#include "allocator/subjects/subject.hpp"
#include "millrace/device/stream.hpp"
#include "millrace/memory/caching_allocator.hpp"

namespace millrace::bench {
namespace {

class MillraceSubject final : public Subject {
 public:
  MillraceSubject(Machine& machine, unsigned streams, const Policy& policy)
      : machine_(machine), source_(machine.device()), allocator_(device_, source_, policy) {
    while (streams_.size() < streams) add_stream();
  }

  void* allocate(std::size_t bytes, unsigned stream) override {
    return allocator_.allocate(bytes, ref(stream));
  }
  void free(void* address, std::size_t, unsigned) override { allocator_.deallocate(address); }
  void free_used(void* address, std::size_t, unsigned, std::span<const unsigned> users) override {
    for (const unsigned user : users) allocator_.record_use(address, ref(user));
    allocator_.deallocate(address);
  }

  void mark(unsigned stream) override {
    count_program_call();
    device_.mark(ref(stream));
  }
  void record(unsigned event, unsigned stream) override {
    if (event >= events_.size()) events_.resize(event + 1);
    count_program_call();
    device_.record(events_[event], ref(stream));
  }
  void wait(unsigned stream, unsigned event) override {
    if (event >= events_.size()) return;  // never recorded
    count_program_call();
    device_.wait(ref(stream), events_[event]);
  }

  CallCounts calls() const override {
    CallCounts counts;
    for (std::size_t i = 0; i < counts.of.size(); ++i) {
      counts.of[i] = machine_.device().calls(static_cast<Call>(i));
    }
    return counts;
  }
  std::size_t peak_reserved() const override {
    return const_cast<CachingAllocator&>(allocator_).statistics().bytes.reserved.peak;
  }
  MillraceParts* millrace() noexcept override { return &parts_; }
  void use_one_shot_stream(std::size_t bytes) override {
    const StreamHandle raw = machine_.create_stream(false);
    allocator_.deallocate(allocator_.allocate(bytes, raw));
  }

 private:
  StreamRef ref(unsigned stream) {
    while (stream >= streams_.size()) [[unlikely]] {
        add_stream();
      }
    return streams_[stream];
  }
  void add_stream() { streams_.push_back(device_.attach(machine_.create_stream(false))); }

  Machine& machine_;
  OrderedDevice device_{machine_.device()};
  DeviceSource source_;
  CachingAllocator allocator_;
  std::vector<StreamRef> streams_;
  std::vector<Event> events_;
  MillraceParts parts_{device_, allocator_};
};

}  // namespace

std::unique_ptr<Subject> make_millrace(Machine& machine, unsigned streams) {
  return std::make_unique<MillraceSubject>(machine, streams, Policy::millrace());
}

std::unique_ptr<Subject> make_millrace_without_ranges(Machine& machine, unsigned streams) {
  Policy policy = Policy::millrace();
  policy.growable_ranges = false;
  return std::make_unique<MillraceSubject>(machine, streams, policy);
}

std::unique_ptr<Subject> make_torch_preset(Machine& machine, unsigned streams) {
  return std::make_unique<MillraceSubject>(machine, streams, Policy::torch());
}

}  // namespace millrace::bench
