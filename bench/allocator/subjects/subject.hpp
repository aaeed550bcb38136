#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/machine/machine.hpp"

namespace millrace {
class CachingAllocator;
class OrderedDevice;
}  // namespace millrace

namespace millrace::bench {

/// Millrace itself, for cases that only it can take.
struct MillraceParts {
  OrderedDevice& device;
  CachingAllocator& allocator;
};

/// An allocator to be measured, as a program that is written for it would use it. Streams have
/// numbers, from 0; a number that was not used before is a new stream.
class Subject {
 public:
  virtual ~Subject() = default;
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  /// @throws std::bad_alloc, DeviceError (out_of_memory)
  [[nodiscard]] virtual void* allocate(std::size_t bytes, unsigned stream) = 0;
  /// Frees on the stream that the block was allocated for.
  virtual void free(void* address, std::size_t bytes, unsigned stream) = 0;
  /// Frees a block that `users` used as well.
  virtual void free_used(void* address, std::size_t bytes, unsigned stream,
                         std::span<const unsigned> users) = 0;

  // What the program does besides; `program_calls` counts the driver calls that this takes.
  /// The end of a phase on a stream, for allocators that ask for it.
  virtual void mark(unsigned stream) = 0;
  virtual void record(unsigned event, unsigned stream) = 0;
  virtual void wait(unsigned stream, unsigned event) = 0;
  [[nodiscard]] std::uint64_t program_calls() const noexcept { return program_calls_; }

  /// All calls so far.
  [[nodiscard]] virtual CallCounts calls() const = 0;
  [[nodiscard]] virtual std::size_t peak_reserved() const = 0;
  [[nodiscard]] virtual MillraceParts* millrace() noexcept { return nullptr; }
  /// One use of a stream that the allocator sees only now and never again.
  virtual void use_one_shot_stream(std::size_t bytes) = 0;

 protected:
  Subject() = default;
  void count_program_call() noexcept { ++program_calls_; }

 private:
  std::uint64_t program_calls_ = 0;
};

/// A row of the table of subjects (subjects.cpp): the one place that names them.
struct SubjectRow {
  using Make = std::unique_ptr<Subject> (*)(Machine& machine, unsigned streams);

  std::string_view name;
  std::string_view what;
  Make make = nullptr;             ///< nullptr: this build has it not
  std::string_view left_out = {};  ///< why, where this build has it not
  bool threads = true;             ///< several threads may share it
  bool only_gpu = false;
  bool millrace = false;  ///< has what MillraceParts are
};

[[nodiscard]] std::span<const SubjectRow> subjects();

// The makers, by source.
[[nodiscard]] std::unique_ptr<Subject> make_millrace(Machine&, unsigned streams);
[[nodiscard]] std::unique_ptr<Subject> make_millrace_without_ranges(Machine&, unsigned streams);
[[nodiscard]] std::unique_ptr<Subject> make_torch_preset(Machine&, unsigned streams);
[[nodiscard]] std::unique_ptr<Subject> make_mutex_floor(Machine&, unsigned streams);
[[nodiscard]] std::unique_ptr<Subject> make_thread_local_floor(Machine&, unsigned streams);
[[nodiscard]] std::unique_ptr<Subject> make_cub(Machine&, unsigned streams);
[[nodiscard]] std::unique_ptr<Subject> make_thrust_pool(Machine&, unsigned streams);
[[nodiscard]] std::unique_ptr<Subject> make_thrust_locked_pool(Machine&, unsigned streams);
[[nodiscard]] std::unique_ptr<Subject> make_driver_pool(Machine&, unsigned streams);
[[nodiscard]] std::unique_ptr<Subject> make_cuda_malloc(Machine&, unsigned streams);

}  // namespace millrace::bench
