#include "memory/caching/allowance.hpp"

#include "test/memory/parts/parts_rig.hpp"

namespace millrace::test {
namespace {

void throw_error(ErrorCode code) { throw DeviceError{code, "acquire", "for a test"}; }

}  // namespace

TEST_CASE("memory that another thread is acquiring counts against the limit", "[parts]") {
  PartsRig rig;
  Allowance allowance{rig.stock, {.limit = 100 * MiB, .headroom = 0}};
  bool other = true;
  CHECK(allowance.obtain(60 * MiB, rig.lock, [&] {
    CHECK_FALSE(rig.lock.owns_lock());
    Lock lock{rig.stock.mutex};  // stands for another thread
    other = allowance.obtain(60 * MiB, lock, [] { FAIL("it is beyond the limit"); });
  }));
  CHECK_FALSE(other);
  CHECK(rig.lock.owns_lock());
  CHECK(allowance.obtain(60 * MiB, rig.lock, [] {}));  // nothing is requested or reserved
  rig.segment(60 * MiB, rig.main);
  CHECK_FALSE(allowance.obtain(60 * MiB, rig.lock, [] {}));
  allowance.set_limit(120 * MiB);
  CHECK(allowance.obtain(60 * MiB, rig.lock, [] {}));
}

TEST_CASE("a growth that failed does not count against the limit", "[parts]") {
  PartsRig rig;
  Allowance allowance{rig.stock, {.limit = 100 * MiB, .headroom = 0}};
  CHECK_FALSE(allowance.obtain(60 * MiB, rig.lock, [] { throw_error(ErrorCode::out_of_memory); }));
  CHECK_THROWS_AS(allowance.obtain(60 * MiB, rig.lock, [] { throw_error(ErrorCode::unknown); }),
                  DeviceError);
  CHECK(rig.lock.owns_lock());
  CHECK(allowance.obtain(100 * MiB, rig.lock, [] {}));
}

TEST_CASE("growth leaves the headroom on the device", "[parts]") {
  PartsRig rig;
  const std::size_t free = rig.device.memory_info().free;
  Allowance allowance{rig.stock, {.limit = 0, .headroom = free - 10 * MiB}};
  CHECK(allowance.obtain(10 * MiB, rig.lock, [] {}));
  CHECK_FALSE(allowance.obtain(10 * MiB + 1, rig.lock, [] {}));
  allowance.set_headroom(0);
  CHECK(allowance.obtain(10 * MiB + 1, rig.lock, [] {}));
}

}  // namespace millrace::test
