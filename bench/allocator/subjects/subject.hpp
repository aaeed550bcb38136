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

/// The parts of Millrace, for cases that need them.
struct MillraceParts {
  OrderedDevice& device;
  CachingAllocator& allocator;
};

/// An allocator to measure, with the calls that a program written for it makes. Streams have
/// numbers from 0. A number that was not used before is a new stream.
class Subject {
 public:
  virtual ~Subject() = default;
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  /// @throws std::bad_alloc, DeviceError (out_of_memory)
  [[nodiscard]] virtual void* allocate(std::size_t bytes, unsigned stream) = 0;
  /// Frees on the stream of the allocation.
  virtual void free(void* address, std::size_t bytes, unsigned stream) = 0;
  /// Frees a block that the streams `users` also used.
  virtual void free_used(void* address, std::size_t bytes, unsigned stream,
                         std::span<const unsigned> users) = 0;

  // Further calls of the program. `program_calls` counts the driver calls that they need.
  /// Marks the end of a phase on a stream, for allocators that need it.
  virtual void mark(unsigned stream) = 0;
  virtual void record(unsigned event, unsigned stream) = 0;
  virtual void wait(unsigned stream, unsigned event) = 0;
  [[nodiscard]] std::uint64_t program_calls() const noexcept { return program_calls_; }

  /// All driver calls so far.
  [[nodiscard]] virtual CallCounts calls() const = 0;
  [[nodiscard]] virtual std::size_t peak_reserved() const = 0;
  [[nodiscard]] virtual MillraceParts* millrace() noexcept { return nullptr; }
  /// Uses a new stream once. The allocator never sees it again.
  virtual void use_one_shot_stream(std::size_t bytes) = 0;

 protected:
  Subject() = default;
  void count_program_call() noexcept { ++program_calls_; }

 private:
  std::uint64_t program_calls_ = 0;
};

/// A row of the table of subjects. Only subjects.cpp contains their names.
struct SubjectRow {
  using Make = std::unique_ptr<Subject> (*)(Machine& machine, unsigned streams);

  std::string_view name;
  std::string_view what;
  Make make = nullptr;             ///< nullptr: this build lacks it
  std::string_view left_out = {};  ///< why this build lacks it
  bool threads = true;             ///< several threads may share it
  bool only_gpu = false;
  bool millrace = false;  ///< whether `Subject::millrace` returns its parts
};

[[nodiscard]] std::span<const SubjectRow> subjects();

// The functions that make subjects, by source.
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
