#include "test/property/run.hpp"

#include <stdexcept>

namespace millrace::test {

void run(World& world, const Program& program) {
  Interpreter interpreter{world};
  for (const Step& step : program) interpreter.run(step);
  interpreter.read_all();
  interpreter.free_all();
  world.check_order();
}

void run_to_nothing(World& world, const Program& program) {
  run(world, program);
  world.device.synchronize();  // runs callbacks, which free blocks
  world.ordered.synchronize();
  world.allocator->trim();
  world.check_sums();
  const MemoryGauges bytes = world.allocator->statistics().bytes;
  const std::size_t left = bytes.reserved.current + bytes.active.current + bytes.requested.current;
  const std::size_t mapped =
      world.caching == nullptr ? world.device.pool_info().reserved : world.source->bytes();
  if (left + mapped != 0) throw std::logic_error{"law 3: something is left"};
}

}  // namespace millrace::test
