#include "device/profile_fields.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace millrace::profile {
namespace {

constexpr double kKi = 1024;
constexpr Unit kUnits[] = {
    {"B", Dimension::bytes, 1},           {"KiB", Dimension::bytes, kKi},
    {"MiB", Dimension::bytes, kKi* kKi},  {"GiB", Dimension::bytes, kKi* kKi* kKi},
    {"GB", Dimension::bytes, 1e9},        {"B/s", Dimension::bandwidth, 1},
    {"MB/s", Dimension::bandwidth, 1e6},  {"GB/s", Dimension::bandwidth, 1e9},
    {"TB/s", Dimension::bandwidth, 1e12}, {"FLOP/s", Dimension::rate, 1},
    {"GFLOP/s", Dimension::rate, 1e9},    {"TFLOP/s", Dimension::rate, 1e12},
    {"Hz", Dimension::frequency, 1},      {"MHz", Dimension::frequency, 1e6},
    {"GHz", Dimension::frequency, 1e9},   {"ns", Dimension::time, 1},
    {"us", Dimension::time, 1e3},         {"ms", Dimension::time, 1e6},
    {"1", Dimension::count, 1},           {"flag", Dimension::flag, 1},
};

template <typename T>
T converted(double value) {
  if constexpr (std::is_same_v<T, Nanoseconds>) {
    return Nanoseconds{std::llround(value)};
  } else {
    return static_cast<T>(value);
  }
}

double number(Nanoseconds value) { return static_cast<double>(value.count()); }
double number(double value) { return value; }
double number(bool value) { return value ? 1 : 0; }
double number(unsigned value) { return value; }
double number(std::size_t value) { return static_cast<double>(value); }

template <typename T>
Field field(std::string path, Dimension dimension, bool may_be_zero, T DeviceProfile::*member) {
  return {
      std::move(path), dimension, may_be_zero,
      [member](const DeviceProfile& profile) { return number(profile.*member); },
      [member](DeviceProfile& profile, double value) { profile.*member = converted<T>(value); }};
}

template <typename Part, typename T>
Field field(std::string path, Dimension dimension, bool may_be_zero, Part DeviceProfile::*part,
            T Part::*member) {
  return {
      std::move(path), dimension, may_be_zero,
      [=](const DeviceProfile& profile) { return number(profile.*part.*member); },
      [=](DeviceProfile& profile, double value) { profile.*part.*member = converted<T>(value); }};
}

Field host_field(std::size_t call) {
  return {std::string{"host."} + to_string(static_cast<Call>(call)), Dimension::time, true,
          [call](const DeviceProfile& profile) { return number(profile.host_time[call]); },
          [call](DeviceProfile& profile, double value) {
            profile.host_time[call] = converted<Nanoseconds>(value);
          }};
}

std::vector<Field> make_fields() {
  using P = DeviceProfile;
  using enum Dimension;
  using Chip = ChipFacts;
  using Pool = DriverPoolPolicy;
  std::vector<Field> all = {
      field("chip.compute_major", count, false, &P::chip, &Chip::compute_major),
      field("chip.compute_minor", count, true, &P::chip, &Chip::compute_minor),
      field("chip.multiprocessors", count, false, &P::chip, &Chip::multiprocessors),
      field("chip.l2", bytes, false, &P::chip, &Chip::l2_bytes),
      field("chip.shared_memory", bytes, false, &P::chip, &Chip::shared_memory),
      field("chip.memory_bus", count, false, &P::chip, &Chip::memory_bus),
      field("chip.clock", frequency, false, &P::chip, &Chip::clock),
      field("chip.memory_clock", frequency, false, &P::chip, &Chip::memory_clock),
      field("memory.bytes", bytes, false, &P::memory_bytes),
      field("memory.granularity", bytes, false, &P::allocation_granularity),
      field("memory.free_synchronizes", flag, true, &P::free_synchronizes),
      field("memory.page_time", time, true, &P::page_time),
      field("memory.alias_time", time, true, &P::alias_time),
      field("copy.host_to_device", bandwidth, false, &P::host_to_device),
      field("copy.device_to_host", bandwidth, false, &P::device_to_host),
      field("copy.device_to_device", bandwidth, false, &P::device_to_device),
      field("copy.peer_to_peer", bandwidth, false, &P::peer_to_peer),
      field("copy.pageable", bandwidth, false, &P::pageable),
      field("copy.pinning", bandwidth, false, &P::pinning),
      field("copy.latency", time, true, &P::copy_latency),
      field("copy.engines", count, false, &P::copy_engines),
      field("kernel.memory_bandwidth", bandwidth, false, &P::memory_bandwidth),
      field("kernel.flops", rate, false, &P::flops),
      field("kernel.launch_latency", time, true, &P::launch_latency),
      field("kernel.minimum", time, true, &P::minimum_kernel),
      field("kernel.concurrent", count, false, &P::concurrent_kernels),
      field("order.launch_queue_depth", count, false, &P::launch_queue_depth),
      field("order.record_latency", time, true, &P::record_latency),
      field("order.wait_latency", time, true, &P::wait_latency),
      field("order.callback_latency", time, true, &P::callback_latency),
      field("order.wake_latency", time, true, &P::wake_latency),
      field("pool.granularity", bytes, false, &P::pool_granularity),
      field("pool.follow_event_dependencies", flag, true, &P::pool,
            &Pool::follow_event_dependencies),
      field("pool.allow_opportunistic", flag, true, &P::pool, &Pool::allow_opportunistic),
      field("pool.allow_internal_dependencies", flag, true, &P::pool,
            &Pool::allow_internal_dependencies),
      field("pool.release_threshold", bytes, true, &P::pool, &Pool::release_threshold),
  };
  for (std::size_t call = 0; call < static_cast<std::size_t>(Call::count_); ++call) {
    all.push_back(host_field(call));
  }
  return all;
}

}  // namespace

const Unit* find_unit(std::string_view name, Dimension dimension) noexcept {
  const auto* unit = std::find_if(std::begin(kUnits), std::end(kUnits), [&](const Unit& candidate) {
    return candidate.name == name && candidate.dimension == dimension;
  });
  return unit == std::end(kUnits) ? nullptr : unit;
}

std::string unit_names(Dimension dimension) {
  std::string names;
  for (const Unit& unit : kUnits) {
    if (unit.dimension != dimension) continue;
    if (!names.empty()) names += ", ";
    names += unit.name;
  }
  return names;
}

const std::vector<Field>& fields() {
  static const std::vector<Field> all = make_fields();
  return all;
}

}  // namespace millrace::profile
