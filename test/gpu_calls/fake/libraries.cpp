#include "test/gpu_calls/fake/libraries.hpp"

#include <cstddef>

#include "test/gpu_calls/fake/state.hpp"

using namespace millrace::test::fake;

// cuBLAS and NCCL. Their loaders find them in this program, because MILLRACE_CUBLAS and
// MILLRACE_NCCL are "".

namespace {

int handles;  // its address is every cuBLAS handle

/// Makes an NCCL call on the communicator's device, then restores the device, as NCCL does.
int on_communicator(const char* name, void* comm) {
  auto* const communicator = static_cast<Communicator*>(comm);
  if (communicator->gone) called("use of a communicator that is gone", comm);
  int before = 0;
  static_cast<void>(cudaGetDevice(&before));
  static_cast<void>(cudaSetDevice(communicator->device));
  const int result = called(name, comm, communicator->number);
  static_cast<void>(cudaSetDevice(before));
  return result;
}

}  // namespace

extern "C" {

int cublasCreate_v2(void** handle) {
  *handle = &handles;
  return called("cublasCreate", nullptr, current_device());
}
int cublasDestroy_v2(void* handle) { return called("cublasDestroy", handle, current_device()); }
int cublasSetStream_v2(void*, void*) { return 0; }
int cublasSetWorkspace_v2(void*, void*, std::size_t) { return 0; }
int cublasSetMathMode(void*, int) { return 0; }
int cublasSetAtomicsMode(void*, int) { return 0; }
int cublasSgemm_v2(void*, int, int, int, int, int, const float*, const float*, int, const float*,
                   int, const float*, float*, int) {
  return called("cublasSgemm", nullptr, current_device());
}

int ncclGetVersion(int* version) {
  *version = 22703;
  return 0;
}
int ncclGetUniqueId(void*) { return 0; }
int ncclCommInitRank(void** comm, int, millrace::collective::NcclApi::UniqueId, int) {
  static int made = 0;
  auto* const communicator = new Communicator{++made, current_device(), false};
  *comm = communicator;
  return on_communicator("ncclCommInitRank", communicator);
}
int ncclCommDestroy(void* comm) {
  const int result = on_communicator("ncclCommDestroy", comm);
  static_cast<Communicator*>(comm)->gone = true;  // not freed, so that a later use is detected
  return result;
}
int ncclCommAbort(void* comm) {
  const int result = on_communicator("ncclCommAbort", comm);
  static_cast<Communicator*>(comm)->gone = true;
  return result;
}
int ncclCommGetAsyncError(void* comm, int* error) {
  *error = 0;
  return on_communicator("ncclCommGetAsyncError", comm);
}
const char* ncclGetErrorString(int) { return "an error of NCCL"; }
int ncclGroupStart() { return called("ncclGroupStart"); }
int ncclGroupEnd() { return called("ncclGroupEnd"); }
int ncclSend(const void*, std::size_t, int, int, void* comm, void*) {
  return on_communicator("ncclSend", comm);
}
int ncclRecv(void*, std::size_t, int, int, void* comm, void*) {
  return on_communicator("ncclRecv", comm);
}
int ncclAllReduce(const void*, void*, std::size_t, int, int, void* comm, void* stream) {
  called("all-reduce on", stream);
  return on_communicator("ncclAllReduce", comm);
}
int ncclBroadcast(const void*, void*, std::size_t, int, int, void* comm, void*) {
  return on_communicator("ncclBroadcast", comm);
}
}
