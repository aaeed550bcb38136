#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

/**
 * @file
 * Stand-ins for the functions of CUDA's runtime and driver, cuBLAS and NCCL that Millrace calls.
 * They replace the libraries in this program, record their arguments, and can be made to fail. Work
 * happens at the call. Kernels do nothing. Tests use them for what does not depend on kernels: the
 * device of a call, the flags of an event, the code of an error, the order of NCCL calls.
 */
namespace millrace::test::fake {

struct Call {
  std::string name;
  std::uintptr_t object = 0;  ///< the stream, event or communicator
  long long value = 0;        ///< flags, device or other stream, by the function
};

/// Resets all state: no calls, no failures, two idle devices without a context.
void reset();

[[nodiscard]] std::vector<Call> calls();
[[nodiscard]] std::vector<Call> calls(const std::string& name);

/// Returns the devices with a context. A call makes one for the device that it names, or for the
/// default device of a thread without a context.
[[nodiscard]] std::set<int> contexts();

/// Makes every later call of this function return this error. "launch" means all launches.
void fail(const std::string& function, int error);

/// Sets whether queries find unfinished work. A wait for the work ends it.
void set_busy(bool busy);

/// Sets whether the GPUs have stream-ordered pools (default: they do).
void set_pools(bool supported);

/// Sets the device's clock, which events record.
void set_time(std::int64_t nanoseconds);
[[nodiscard]] std::size_t live_events();

/// Runs `hook` at the beginning of each call of this function.
void on(const std::string& function, std::function<void()> hook);

}  // namespace millrace::test::fake
