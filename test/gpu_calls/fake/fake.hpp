#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

/**
 * @file
 * The functions of CUDA's runtime, driver, cuBLAS and NCCL that Millrace calls, in this program in
 * place of the libraries: they take down what they are called with, and can be made to fail. Work
 * happens at the call; kernels do nothing. For what no kernel decides: which device a call
 * concerns, what an event is made with, what an error becomes, in which order NCCL is called.
 */
namespace millrace::test::fake {

struct Call {
  std::string name;
  std::uintptr_t object = 0;  ///< the stream, event or communicator
  long long value = 0;        ///< flags, device or other stream, as the function has it
};

/// Nothing was called and nothing fails; two devices without a context, which are idle.
void reset();

[[nodiscard]] std::vector<Call> calls();
[[nodiscard]] std::vector<Call> calls(const std::string& name);

/// Devices that have a context: the call that made it named them, or the thread had none current.
[[nodiscard]] std::set<int> contexts();

/// From now on every call of this function gives this error; "launch" stands for all launches.
void fail(const std::string& function, int error);

/// Whether queries find work under way. What waits for it ends it.
void set_busy(bool busy);

/// The device's clock, which events record.
void set_time(std::int64_t nanoseconds);
[[nodiscard]] std::size_t live_events();

/// Runs in each call of this function, before it does anything.
void on(const std::string& function, std::function<void()> hook);

}  // namespace millrace::test::fake
