#include "allocator/machine/machine.hpp"

// Replaces machine/cuda in builds without CUDA.

namespace millrace::bench {
namespace {

[[noreturn]] void refuse() {
  throw DeviceError{ErrorCode::not_supported, "a GPU", "this build has no CUDA"};
}

}  // namespace

std::unique_ptr<Machine> make_cuda_machine(int) { refuse(); }
std::string cuda_machine_title(int) { refuse(); }

}  // namespace millrace::bench
