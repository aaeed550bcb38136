#include "test/pipeline/sharding/sharded_machine.hpp"

#include "millrace/pipeline/collective/run_ranks.hpp"
#include "test/support/schedules.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kMemory = std::size_t{1} << 28;

/// Missing waits of the host show when the host runs far ahead, missing waits of main when it does
/// not.
unsigned run_ahead(std::uint64_t schedule) {
  return schedule != 0 && schedule % 2 == 0 ? 20 : 1000;
}

}  // namespace

ShardedMachine::ShardedMachine(unsigned ranks, std::uint64_t schedule, bool data)
    : machine(schedule_of(schedule)), ranks_(ranks, machine, {.cost_only = !data}) {
  checking.attach(machine.executor());
  for (unsigned rank = 0; rank < ranks; ++rank) {
    VirtualDevice& device =
        machine.add_device({.memory_bytes = kMemory, .launch_queue_depth = run_ahead(schedule)});
    checking.attach(device);
    seats_.push_back(std::make_unique<Seat>(device));
  }
}

void ShardedMachine::run(const std::function<void(Place&)>& body) {
  run_ranks(machine.executor(), ranks_.size(), [&](unsigned number) {
    Seat& seat = *seats_[number];
    const auto group = ranks_.join(number, seat.ordered);
    Place place{number, seat.device, seat.program_device, seat.ordered, seat.program, *group};
    body(place);
  });
}

std::vector<std::string> ShardedMachine::races() const {
  std::vector<std::string> messages;
  for (const RaceChecker::Race& race : checking.races()) messages.push_back(race.message);
  return messages;
}

}  // namespace millrace::test
