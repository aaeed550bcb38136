#pragma once

#include "millrace/pipeline/collective/mpi_group.hpp"

namespace millrace::test {

/// Returns the processes of this job. They exist from the first call until the program ends.
[[nodiscard]] MpiProcesses& processes();

}  // namespace millrace::test
