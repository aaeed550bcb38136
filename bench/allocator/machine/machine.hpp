#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "allocator/machine/driver.hpp"
#include "millrace/device/device.hpp"

namespace millrace::bench {

/// The source of a subject's memory, new for each run: a device whose calls return immediately, or
/// a GPU. Millrace calls `device`. The other allocators, and programs written for them, call
/// `driver`.
class Machine {
 public:
  virtual ~Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  [[nodiscard]] virtual Device& device() = 0;
  [[nodiscard]] virtual Driver& driver() = 0;
  [[nodiscard]] virtual bool is_gpu() const = 0;

  /// The stream lives as long as the machine.
  [[nodiscard]] virtual StreamHandle create_stream(bool blocking) = 0;

  /// Call it on each further thread before the thread uses the machine. Keep the result until the
  /// thread is done.
  [[nodiscard]] virtual std::shared_ptr<void> enter_thread() { return nullptr; }

  /// Peak bytes that the subject held through `device` or `driver`.
  [[nodiscard]] virtual std::size_t peak_reserved() const = 0;
  /// Number of pages mapped so far.
  [[nodiscard]] virtual std::uint64_t mapped_pages() const = 0;

  // On a device that is not a GPU, the program decides when work is complete. On a GPU these
  // functions throw std::logic_error.
  /// While busy, no recorded event completes.
  virtual void set_busy(bool busy) = 0;
  /// From now on an event completes after `steps` further steps have ended (0: immediately).
  virtual void run_behind(std::uint64_t steps) = 0;
  virtual void end_step() = 0;

 protected:
  Machine() = default;
};

/// A machine whose calls return immediately. @param page  page size of growable ranges in bytes
[[nodiscard]] std::unique_ptr<Machine> make_null_machine(std::size_t page);
/// GPU `ordinal`. @throws DeviceError without CUDA or without that GPU
[[nodiscard]] std::unique_ptr<Machine> make_cuda_machine(int ordinal);
/// "NVIDIA H100 80GB HBM3". @throws DeviceError as above
[[nodiscard]] std::string cuda_machine_title(int ordinal);

/// The machine that serves CUB's and Thrust's calls.
[[nodiscard]] Machine* current_machine() noexcept;
void set_current_machine(Machine* machine) noexcept;

}  // namespace millrace::bench
