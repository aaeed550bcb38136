#include "test/mpi/processes.hpp"

#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "millrace/device/virtual_machine.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {

MpiProcesses& processes() {
  static int no_arguments = 0;
  static char** none = nullptr;
  static MpiProcesses all{no_arguments, none};
  return all;
}

TEST_CASE("a rank that is late is given up and named") {
  if (processes().size() < 2) SKIP("takes two ranks");
  VirtualMachine machine;
  OrderedDevice device{machine.add_device()};
  const auto group = processes().group(device, {.time_out = std::chrono::milliseconds{300}});
  group->barrier();
  if (group->rank() == 1) {  // the late rank gets the error, too
    std::string message;
    for (int i = 0; i < 2000 && message.empty(); ++i) {
      try {
        group->check();
      } catch (const CollectiveError& error) {
        message = error.what();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
    CHECK_THAT(message, Catch::Matchers::ContainsSubstring("rank 1 has not come to barrier"));
    return;
  }
  CHECK_THROWS_WITH(group->barrier(),
                    Catch::Matchers::ContainsSubstring("rank 1 has not come to barrier"));
}

// For killed.sh. It does not end by itself.
TEST_CASE("rank 1 is killed while the others wait for it", "[.][alone]") {
  VirtualMachine machine;
  OrderedDevice device{machine.add_device()};
  const auto group = processes().group(device);
  group->barrier();
  if (group->rank() == 1) std::raise(SIGKILL);
  group->barrier();
  FAIL("a rank that was killed came to a barrier");
}

}  // namespace millrace::test
