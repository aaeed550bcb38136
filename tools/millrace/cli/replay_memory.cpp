#include "cli/replay_memory.hpp"

#include <fmt/format.h>

#include "millrace/memory/byte_size.hpp"
#include "millrace/observe/replay.hpp"

namespace millrace::cli {

ReplayMemory replay_memory(const trace::AllocationLog& log, std::uint32_t device,
                           std::size_t given) {
  if (given > 0) return {given, ReplayMemory::From::option, ""};
  const RecordedDevice recorded = recorded_device(log, device);
  switch (recorded.source) {
    case RecordedDevice::Source::out_of_memory:
      return {recorded.bytes, ReplayMemory::From::out_of_memory, ""};
    case RecordedDevice::Source::full:
      return {recorded.bytes, ReplayMemory::From::full, ""};
    case RecordedDevice::Source::whole:
      return {recorded.bytes, ReplayMemory::From::whole, ""};
    case RecordedDevice::Source::unknown:
      break;
  }
  return {};
}

ReplayMemory unlimited(const ReplayMemory& memory, const std::string& row,
                       const std::string& failure) {
  return {0, ReplayMemory::From::nothing,
          fmt::format("{} does not fit into {}, the memory of the device according to the trace "
                      "({}); these rows have no limit",
                      row, format_bytes(memory.bytes), failure)};
}

std::string in_words(const ReplayMemory& memory, bool is_snapshot) {
  const std::string size = fmt::format("a device of {}", format_bytes(memory.bytes));
  switch (memory.from) {
    case ReplayMemory::From::option:
      return size + " (--device-bytes)";
    case ReplayMemory::From::out_of_memory:
      return size + ", as PyTorch found it when it ran out of memory";
    case ReplayMemory::From::full:
      return size + ", the most that PyTorch held: it gave segments back to serve a request";
    case ReplayMemory::From::whole:
      return size + ", the whole device on which a request of the trace failed";
    case ReplayMemory::From::nothing:
      break;
  }
  const bool never = is_snapshot && memory.note.empty();
  return never ? "a device without a limit: the trace does not show PyTorch short of memory"
               : "a device without a limit";
}

const char* to_string(ReplayMemory::From from) noexcept {
  switch (from) {
    case ReplayMemory::From::option:
      return "option";
    case ReplayMemory::From::out_of_memory:
      return "out of memory";
    case ReplayMemory::From::full:
      return "full";
    case ReplayMemory::From::whole:
      return "device";
    case ReplayMemory::From::nothing:
      break;
  }
  return nullptr;
}

}  // namespace millrace::cli
