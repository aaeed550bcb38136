#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "test/virtual_cuda/laws/gpu.hpp"

namespace millrace::test {

/// The size of most blocks.
inline constexpr std::size_t kBytes = 4096;

/** Kernels that compute nothing. The checker derives their accesses from their names. */
namespace kernels {
/// write(int*, int)
void launch_write(int* to, cudaStream_t stream);
/// read_and_write(int*, int const*, int)
void launch_read(int* to, const int* from, cudaStream_t stream);

/// Two buffers that are passed by value. The signature does not show which of them a kernel writes.
struct Buffers {
  int* first;
  int* second;
};
/// write_second(Buffers, int) declares that it writes `second`, and write_first that it writes
/// `first`.
void launch_write_first(const Buffers& buffers, cudaStream_t stream);
void launch_write_second(const Buffers& buffers, cudaStream_t stream);
}  // namespace kernels

struct Race {
  std::string kind;
  std::string message;
};

/** The races that the checker has found since this object was made. */
class Races {
 public:
  Races() : before_{virtual_cuda().races(nullptr, nullptr)} {}
  [[nodiscard]] std::size_t count() const {
    return virtual_cuda().races(nullptr, nullptr) - before_;
  }
  /// The race that was named last.
  [[nodiscard]] static Race last() {
    Race found;
    virtual_cuda().races(
        [](const MillraceRace* race, void* data) {
          *static_cast<Race*>(data) = {race->kind, race->message};
        },
        &found);
    return found;
  }

 private:
  std::size_t before_;
};

/** The number of races that were named one by one so far. */
inline std::size_t named_races() {
  std::size_t all = 0;
  const auto count = [](const MillraceRace*, void* data) { ++*static_cast<std::size_t*>(data); };
  static_cast<void>(virtual_cuda().races(count, &all));
  return all;
}

inline void host_reads(const void* address, std::size_t bytes) {
  virtual_cuda().host_access(address, bytes, 0);
}
inline void host_writes(const void* address, std::size_t bytes) {
  virtual_cuda().host_access(address, bytes, 1);
}

}  // namespace millrace::test
