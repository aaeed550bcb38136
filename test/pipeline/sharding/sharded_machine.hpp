#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/device/checking.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "millrace/pipeline/collective/thread_group.hpp"
#include "test/support/leaving_out_device.hpp"

namespace millrace::test {

/// A machine on which each rank is an actor with its own device. A checker observes all its work.
class ShardedMachine {
 public:
  /// @param schedule  0: timed; otherwise the seed of an adversarial schedule
  /// @param data      false: operations have their accesses and costs and compute nothing
  explicit ShardedMachine(unsigned ranks, std::uint64_t schedule = 0, bool data = true);

  struct Place {
    unsigned number;
    VirtualDevice& device;
    LeavingOutDevice& program_device;
    OrderedDevice &ordered, &program;  ///< over `device` and over `program_device`
    ProcessGroup& group;
  };
  /// Runs `body` as each rank. Call it once. @throws what `run_ranks` throws
  void run(const std::function<void(Place&)>& body);

  [[nodiscard]] std::vector<std::string> races() const;

  VirtualMachine machine;
  CheckingObserver checking;

 private:
  struct Seat {
    explicit Seat(VirtualDevice& of) : device(of) {}
    VirtualDevice& device;
    LeavingOutDevice program_device{device};
    OrderedDevice ordered{device}, program{program_device};
  };

  std::vector<std::unique_ptr<Seat>> seats_;
  ThreadRanks ranks_;
};

}  // namespace millrace::test
