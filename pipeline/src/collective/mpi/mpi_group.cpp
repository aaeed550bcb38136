#include "millrace/pipeline/collective/mpi_group.hpp"

#include <stdexcept>

#include "collective/host/staged_group.hpp"
#include "collective/mpi/mpi.hpp"
#include "collective/mpi/transport.hpp"

namespace millrace {

using collective::check_mpi;

MpiSupport mpi_support() { return {true, ""}; }

MpiProcesses::MpiProcesses(int& argc, char**& argv) {
  int already = 0, provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Initialized(&already), "MPI_Initialized");
  if (already != 0) {
    check_mpi(MPI_Query_thread(&provided), "MPI_Query_thread");
  } else {
    check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    began_here_ = true;
  }
  if (provided < MPI_THREAD_SERIALIZED) {
    throw std::runtime_error{
        "MPI was initialized for one thread: groups need MPI_THREAD_SERIALIZED"};
  }
  int rank = 0, size = 1;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  rank_ = static_cast<unsigned>(rank);
  size_ = static_cast<unsigned>(size);
}

MpiProcesses::~MpiProcesses() {
  // Only the code that initialized MPI ends it.
  if (began_here_) MPI_Finalize();
}

std::unique_ptr<ProcessGroup> MpiProcesses::group(OrderedDevice& device, const Options& options) {
  return std::make_unique<collective::StagedGroup>(
      rank_, size_, std::make_unique<collective::MpiTransport>(MPI_COMM_WORLD, options.time_out),
      device, "mpi");
}

}  // namespace millrace
