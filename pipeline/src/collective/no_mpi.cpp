#include <stdexcept>

#include "millrace/pipeline/collective/mpi_group.hpp"

namespace millrace {

MpiSupport mpi_support() {
  return {false, "this build has no MPI: install libopenmpi-dev and openmpi-bin, and build again"};
}

MpiProcesses::MpiProcesses(int&, char**&) { throw std::runtime_error{mpi_support().how_to_get}; }
MpiProcesses::~MpiProcesses() = default;

std::unique_ptr<ProcessGroup> MpiProcesses::group(OrderedDevice&, const Options&) {
  throw std::runtime_error{mpi_support().how_to_get};
}

}  // namespace millrace
