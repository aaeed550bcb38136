#pragma once

#include <cstdint>
#include <vector>

#include "allocator/measure/trial.hpp"

namespace millrace::bench {

/// One step of a recorded program.
struct ScriptStep {
  enum class Kind : std::uint8_t {
    allocate,  ///< of `block` on `stream`
    use,       ///< of `block` by `stream`, until its free
    free,      ///< of `block`
    record,    ///< of event `block` on `stream`
    wait,      ///< by `stream` for event `block`
    end_step,  ///< of a training loop: the device has finished the step before
  };
  Kind kind;
  std::uint32_t stream = 0;
  std::uint32_t block = 0;
  std::uint64_t bytes = 0;  ///< size of an allocation
};

/// The requests of a program to its allocator. Each subject gets the same requests.
struct Script {
  std::vector<ScriptStep> steps;
  unsigned streams = 1;
  std::uint32_t blocks = 0;
  bool ends_steps = false;  ///< the device then runs one step behind the host

  [[nodiscard]] std::uint64_t allocations() const;
};

/// Runs the script with an empty start until the budget is used up. Each run has a new machine.
[[nodiscard]] Measured run_script(const Script& script, const SubjectRow& row,
                                  const Setting& setting);
/// Runs the script once unmeasured, and then repeatedly with the memory that the subject holds.
[[nodiscard]] Measured run_script_warm(const Script& script, const SubjectRow& row,
                                       const Setting& setting);

}  // namespace millrace::bench
