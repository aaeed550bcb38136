#include "test/support/catch.hpp"
#include "test/virtual_cuda/processes/run.hpp"

using millrace::test::Ran;
using millrace::test::run;

TEST_CASE("all libraries in a process share one virtual machine") {
  const std::string schedule = GENERATE("instant", "lag:100", "adversarial:1", "h200");
  const Ran ran =
      run("load_several_libraries",
          "MILLRACE_TEST_CUDART_12=" MILLRACE_CUDART_12 " MILLRACE_VIRTUAL=" + schedule);
  CAPTURE(schedule, ran.errors);
  CHECK(ran.code == 0);
}

TEST_CASE("the driver has to be initialized, and names an unsupported function once") {
  const Ran ran = run("call_the_driver_first", "MILLRACE_VIRTUAL=instant,gpus=2");
  CHECK(ran.code == 0);
  CHECK(ran.errors ==
        "millrace virtual CUDA: cuTexRefCreate is not supported (texture and surface references): "
        "cudaErrorNotSupported\n");
}
