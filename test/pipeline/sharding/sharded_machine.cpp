#include "test/pipeline/sharding/sharded_machine.hpp"

#include "millrace/pipeline/collective/run_ranks.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kMemory = std::size_t{1} << 28;

VirtualMachine::Options machine_options(std::uint64_t schedule) {
  if (schedule == 0) return {};
  return {.schedule = VirtualMachine::Schedule::adversarial, .seed = schedule};
}

}  // namespace

ShardedMachine::ShardedMachine(unsigned ranks, std::uint64_t schedule)
    : machine(machine_options(schedule)), ranks_(ranks, machine) {
  checking.attach(machine.executor());
  for (unsigned rank = 0; rank < ranks; ++rank) {
    VirtualDevice& device = machine.add_device({.memory_bytes = kMemory});
    checking.attach(device);
    seats_.push_back(std::make_unique<Seat>(device));
  }
}

void ShardedMachine::run(const std::function<void(Place&)>& body) {
  run_ranks(machine.executor(), ranks_.size(), [&](unsigned number) {
    Seat& seat = *seats_[number];
    const auto group = ranks_.join(number, seat.ordered);
    Place place{number, seat.device, seat.ordered, *group};
    body(place);
  });
}

std::vector<std::string> ShardedMachine::races() const {
  std::vector<std::string> messages;
  for (const RaceChecker::Race& race : checking.races()) messages.push_back(race.message);
  return messages;
}

}  // namespace millrace::test
