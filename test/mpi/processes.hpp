#pragma once

#include "millrace/pipeline/collective/mpi_group.hpp"

namespace millrace::test {

/// The processes of this job, from when this is first called until the program ends.
[[nodiscard]] MpiProcesses& processes();

}  // namespace millrace::test
