#include "allocator/machine/machine.hpp"
#include "allocator/machine/null_device.hpp"

namespace millrace::bench {
namespace {

class NullDriver final : public Driver {
 public:
  NullDriver(NullMemory& memory, NullEvents& events) : memory_(memory), events_(events) {}

 private:
  void* do_allocate(std::size_t bytes) override { return memory_.allocate(bytes); }
  void do_free(void* address) override { memory_.free(address); }
  EventHandle do_create_event() override { return events_.create(); }
  void do_destroy_event(EventHandle event) override { events_.destroy(event); }
  void do_record(EventHandle event, StreamHandle) override { events_.record(event); }
  void do_wait(StreamHandle, EventHandle) override {}
  bool do_query(EventHandle event) override { return events_.complete(event); }
  void do_synchronize(StreamHandle) override {}

  NullMemory& memory_;
  NullEvents& events_;
};

class NullMachine final : public Machine {
 public:
  explicit NullMachine(std::size_t page) : memory_(page) {}

  Device& device() override { return device_; }
  Driver& driver() override { return driver_; }
  bool is_gpu() const override { return false; }
  StreamHandle create_stream(bool blocking) override { return device_.new_stream(blocking); }
  std::size_t peak_reserved() const override { return memory_.peak(); }
  std::uint64_t mapped_pages() const override { return memory_.mapped_pages(); }
  void set_busy(bool busy) override { events_.set_busy(busy); }
  void run_behind(std::uint64_t steps) override { events_.set_lag(steps); }
  void end_step() override { events_.end_step(); }

 private:
  NullMemory memory_;
  NullEvents events_;
  NullDevice device_{memory_, events_};
  NullDriver driver_{memory_, events_};
};

Machine* current = nullptr;

}  // namespace

std::unique_ptr<Machine> make_null_machine(std::size_t page) {
  return std::make_unique<NullMachine>(page);
}

Machine* current_machine() noexcept { return current; }
void set_current_machine(Machine* machine) noexcept { current = machine; }

}  // namespace millrace::bench
