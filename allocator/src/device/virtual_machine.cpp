#include "millrace/device/virtual_machine.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "device/virtual/machine.hpp"
#include "device/virtual/meeting_state.hpp"

namespace millrace {

const char* to_string(Engine engine) noexcept {
  switch (engine) {
    case Engine::compute:
      return "compute";
    case Engine::host_to_device:
      return "host to device";
    case Engine::device_to_host:
      return "device to host";
    case Engine::link:
      return "link";
    case Engine::host:
      return "host";
    case Engine::stream:
    case Engine::count_:
      break;
  }
  return "stream";
}

VirtualMachine::VirtualMachine() : VirtualMachine(Options{}) {}

VirtualMachine::VirtualMachine(const Options& options)
    : machine_(std::make_unique<simulation::Machine>(options)) {}

VirtualMachine::~VirtualMachine() = default;

VirtualDevice& VirtualMachine::add_device(const VirtualDevice::Options& options) {
  return machine_->add_device(options);
}

std::shared_ptr<Meeting> VirtualMachine::make_meeting(unsigned parties, Meeting::Effect effect) {
  if (parties == 0) throw std::invalid_argument{"a meeting needs at least one party"};
  auto state = std::make_shared<simulation::MeetingState>(*machine_, parties, std::move(effect));
  return std::make_shared<Meeting>(std::move(state));
}

Executor& VirtualMachine::executor() noexcept { return machine_->actors; }

Nanoseconds VirtualMachine::now() { return machine_->actors.now(); }

std::optional<VirtualMachine::CallingActor> VirtualMachine::calling_actor() noexcept {
  const simulation::Actor* const actor = machine_->actors.current_or_null();
  if (actor == nullptr) return {};
  return CallingActor{actor->id, actor->name, actor->clock};
}

void VirtualMachine::add_timeline(TimelineObserver& observer) {
  machine_->timelines.push_back(&observer);
}

void VirtualMachine::remove_timeline(TimelineObserver& observer) {
  std::erase(machine_->timelines, &observer);
}

}  // namespace millrace
