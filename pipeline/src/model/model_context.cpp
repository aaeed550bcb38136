#include "millrace/pipeline/model/model_context.hpp"

#include <optional>

#include "millrace/config.hpp"
#include "millrace/device/cuda_calls.hpp"
#include "millrace/device/cuda_device.hpp"
#include "millrace/pipeline/kernels/blas_handle.hpp"
#include "model/cuda/blas.hpp"

namespace millrace {

namespace model {

#if MILLRACE_HAS_CUDA
// cuBLAS destroys a handle only if its device is current. The handle of a lost device is leaked.
BlasHandle::~BlasHandle() {
  if (handle == nullptr) return;
  try {
    const CurrentGpu current{gpu};
    cuda::destroy_blas(handle);
  } catch (const DeviceError&) {
  }
}
#else
BlasHandle::~BlasHandle() = default;
#endif

}  // namespace model

namespace {

std::optional<int> ordinal_of(const Device& device) {
  const auto* const gpu = dynamic_cast<const CudaDevice*>(&device);
  return gpu == nullptr ? std::nullopt : std::optional{gpu->ordinal()};
}

}  // namespace

ModelContext::ModelContext(Allocator& allocator, Stream& main, bool cost_only)
    : allocator_(allocator),
      main_(main),
      cost_only_(cost_only),
      gpu_(cost_only ? std::nullopt : ordinal_of(device())),
      tags_{allocator.tag("tables"), allocator.tag("optimizer state"), allocator.tag("parameters"),
            allocator.tag("activations"), allocator.tag("scratch")} {}

ModelContext::~ModelContext() = default;

const model::BlasHandle* ModelContext::blas([[maybe_unused]] StreamRef stream) {
#if MILLRACE_HAS_CUDA
  if (gpu_) {
    auto& blas = blas_[stream.handle().value];
    const std::uint64_t id = device().stream_id(stream.handle());
    if (!blas || blas->stream_id != id) {  // or another stream has the handle now
      const CurrentGpu current{*gpu_};
      auto made = std::make_unique<model::BlasHandle>();
      made->gpu = *gpu_;
      made->stream_id = id;
      made->workspace = {allocator_, model::cuda::kBlasWorkspace, stream, tags_.scratch};
      made->handle = model::cuda::create_blas(stream.handle().value, made->workspace.data());
      blas = std::move(made);
    }
    return blas.get();
  }
#endif
  return nullptr;
}

}  // namespace millrace
