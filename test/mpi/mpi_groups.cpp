#include <optional>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/pipeline/collective/mpi_group.hpp"
#include "test/conformance/group_conformance.hpp"
#include "test/mpi/processes.hpp"

namespace millrace::test {
namespace {

void on_this_process(unsigned, const RankBody& body) {
  VirtualMachine machine;
  OrderedDevice device{machine.add_device({.memory_bytes = std::size_t{256} << 20})};
  Rank rank{processes().group(device, {.time_out = std::chrono::seconds{20}}), device};
  body(rank);
}

}  // namespace

const std::vector<GroupFactory>& group_factories() {
  static const std::vector<GroupFactory> all{{"mpi", {processes().size()}, on_this_process}};
  return all;
}

}  // namespace millrace::test
