#include "ship/lifecycle.hpp"

#include "millrace/device/virtual_machine.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace std::chrono_literals;

TEST_CASE("the lifecycle goes from running to closing with a deadline to finished") {
  VirtualMachine machine{{}};
  Executor& executor = machine.executor();
  ship::Lifecycle life{executor};
  CHECK(life.running());
  CHECK_FALSE(life.out_of_time());
  life.close(10ms);
  CHECK(life.closing());
  CHECK_FALSE(life.out_of_time());
  executor.spend(11ms);
  CHECK(life.out_of_time());
  life.close(10ms);  // a later deadline
  CHECK_FALSE(life.out_of_time());
  CHECK_FALSE(life.ending());
  life.end();
  CHECK(life.ending());
  CHECK(life.closing());
  CHECK(life.given_up().empty());
  life.finish("why");
  CHECK(life.given_up() == "why");
  life.close(0ms);
  CHECK(life.finished());
  CHECK_FALSE(life.out_of_time());
}
