#include "millrace/pipeline/collective/thread_group.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "collective/host/staged_group.hpp"
#include "collective/threads/meeting_group.hpp"
#include "collective/threads/ranks.hpp"

namespace millrace {

ThreadRanks::ThreadRanks(unsigned ranks, VirtualMachine& machine, const Options& options)
    : ranks_(std::make_shared<collective::SharedRanks>(ranks, machine.executor(), &machine,
                                                       options)) {}

ThreadRanks::ThreadRanks(unsigned ranks, VirtualMachine& machine)
    : ThreadRanks(ranks, machine, Options{}) {}

ThreadRanks::ThreadRanks(unsigned ranks, Executor& executor)
    : ranks_(std::make_shared<collective::SharedRanks>(ranks, executor, nullptr, Options{})) {}

ThreadRanks::~ThreadRanks() = default;

unsigned ThreadRanks::size() const noexcept { return ranks_->size; }

std::unique_ptr<ProcessGroup> ThreadRanks::join(unsigned rank, OrderedDevice& device) {
  if (rank >= size()) {
    throw std::invalid_argument{
        fmt::format("rank {} is out of range: the group has {} ranks", rank, size())};
  }
  const bool meets = ranks_->machine != nullptr;
  auto* const virtual_device = dynamic_cast<VirtualDevice*>(&device.device());
  if (meets && virtual_device == nullptr) {
    throw std::invalid_argument{
        fmt::format("{} is not a device of a virtual machine", device.device().name())};
  }
  ranks_->enter(rank);
  // Devices of one machine meet in its virtual time. Others exchange their data through the host.
  if (meets) return std::make_unique<collective::MeetingGroup>(rank, ranks_, *virtual_device);
  return std::make_unique<collective::StagedGroup>(
      rank, size(), collective::make_thread_transport(ranks_, rank), device, "threads");
}

}  // namespace millrace
