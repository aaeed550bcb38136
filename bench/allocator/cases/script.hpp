#pragma once

#include <cstdint>
#include <vector>

#include "allocator/measure/trial.hpp"

namespace millrace::bench {

/// One thing that a recorded program did.
struct ScriptStep {
  enum class Kind : std::uint8_t {
    allocate,  ///< `block` on `stream`
    use,       ///< of `block` by `stream`, until it is freed
    free,      ///< `block`
    record,    ///< event `block` on `stream`
    wait,      ///< of `stream` for event `block`
    end_step,  ///< of a training loop: the device has finished the step before it
  };
  Kind kind;
  std::uint32_t stream = 0;
  std::uint32_t block = 0;
  std::uint64_t bytes = 0;  ///< of an allocation
};

/// What a program asked of its allocator, to be asked again of each subject.
struct Script {
  std::vector<ScriptStep> steps;
  unsigned streams = 1;
  std::uint32_t blocks = 0;
  bool ends_steps = false;  ///< the device then runs a step behind

  [[nodiscard]] std::uint64_t allocations() const;
};

/// Runs it from an empty start, again and again until the budget is used up, each time on a machine
/// of its own.
[[nodiscard]] Measured run_script(const Script& script, const SubjectRow& row,
                                  const Setting& setting);
/// Runs it once unmeasured, and then again and again with the memory that the subject holds by
/// then.
[[nodiscard]] Measured run_script_warm(const Script& script, const SubjectRow& row,
                                       const Setting& setting);

}  // namespace millrace::bench
