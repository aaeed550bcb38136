#include "test/support/plain_device.hpp"

#include <algorithm>
#include <stdexcept>

namespace millrace::test {

DeviceProfile plain_profile() {
  DeviceProfile profile = DeviceProfile::named("h200");
  profile.name = "plain";
  for (double* speed :
       {&profile.host_to_device, &profile.device_to_host, &profile.device_to_device,
        &profile.peer_to_peer, &profile.pageable, &profile.pinning, &profile.flops}) {
    *speed = 1e9;
  }
  profile.memory_bandwidth = 2e9;  // so that a local copy of n bytes takes n ns
  for (Nanoseconds* time : {&profile.copy_latency, &profile.launch_latency, &profile.minimum_kernel,
                            &profile.record_latency, &profile.wait_latency,
                            &profile.callback_latency, &profile.wake_latency}) {
    *time = Nanoseconds{0};
  }
  profile.host_time.fill(Nanoseconds{0});
  profile.page_time = profile.alias_time = Nanoseconds{0};
  return profile;
}

VirtualDevice::Options plain_options(std::size_t memory_bytes) {
  VirtualDevice::Options options;
  options.profile = plain_profile();
  options.memory_bytes = memory_bytes;
  return options;
}

Operation fixed_kernel(std::string name, Nanoseconds time) {
  Operation operation;
  operation.name = std::move(name);
  operation.cost.fixed = time;
  return operation;
}

Operation busy_kernel(std::string name, Nanoseconds time) {
  Operation operation;
  operation.name = std::move(name);
  operation.cost.flops = static_cast<double>(time.count());
  return operation;
}

Timeline::Timeline(VirtualMachine& machine) : machine_(machine) { machine_.add_timeline(*this); }

Timeline::~Timeline() { machine_.remove_timeline(*this); }

void Timeline::executed(const ExecutedOperation& operation) {
  entries_.push_back({std::string{operation.name}, std::string{operation.stream_name},
                      operation.engine, operation.begin, operation.end, operation.index,
                      operation.device});
}

const Timeline::Entry& Timeline::at(const std::string& name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.name == name; });
  if (found == entries_.end()) throw std::out_of_range("nothing ran as " + name);
  return *found;
}

std::vector<std::string> Timeline::order() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) {
    if (entry.name != "record" && entry.name != "wait") names.push_back(entry.name);
  }
  return names;
}

}  // namespace millrace::test
