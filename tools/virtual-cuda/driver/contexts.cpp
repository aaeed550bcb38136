// Contexts. The context on top of a thread's stack determines the runtime's current device. Only
// the driver knows the contexts below it.

#include "driver/contexts.hpp"

#include <utility>

#include "abi/functions.h"

namespace millrace::virtual_cuda {
namespace {

constexpr unsigned kApiVersion = 13000;

Gpu& gpu_at(CUdevice device) { return *runtime().gpus[static_cast<std::size_t>(device)]; }

void set_top(Thread& thread, CUcontext context) {
  thread.bound = context != nullptr;
  thread.device = context == nullptr ? 0 : static_cast<int>(context->gpu->ordinal);
  thread.context = context == nullptr || context->primary ? nullptr : context;
}

void push(Thread& thread, CUcontext context) {
  if (thread.bound) thread.contexts_below.push_back(current_context(thread));
  set_top(thread, context);
}

CUcontext pop(Thread& thread) {
  const CUcontext top = current_context(thread);
  CUcontext next = nullptr;
  if (!thread.contexts_below.empty()) {
    next = thread.contexts_below.back();
    thread.contexts_below.pop_back();
  }
  set_top(thread, next);
  return top;
}

// Another thread may have destroyed the context of a thread. The next call returns an error then.
cudaError_t check(CUcontext context) {
  return valid(context) ? cudaSuccess : cudaErrorContextIsDestroyed;
}

cudaError_t create(Thread& thread, CUcontext* made, unsigned flags, CUdevice device) {
  if (made == nullptr || (flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) != 0)
    return cudaErrorInvalidValue;
  if (!is_gpu(device)) return cudaErrorInvalidDevice;
  {
    const Lock lock = lock_engine();
    *made = &runtime().contexts.emplace_back(
        CUctx_st{CUctx_st::kMagic, false, flags, ++runtime().context_ids, &gpu_at(device)});
  }
  push(thread, *made);
  return cudaSuccess;
}

cudaError_t destroy(Thread& thread, CUcontext context) {
  if (!valid(context)) return cudaErrorInvalidValue;
  if (context->primary) return cudaErrorDeviceUninitialized;
  Lock lock = lock_engine();
  synchronize(lock, *context->gpu);
  if (current_context(thread) == context) static_cast<void>(pop(thread));
  std::erase(thread.contexts_below, context);
  context->magic = 0;
  return cudaSuccess;
}

cudaError_t retain_primary(CUcontext* out, CUdevice device) {
  if (out == nullptr) return cudaErrorInvalidValue;
  if (!is_gpu(device)) return cudaErrorInvalidDevice;
  const Lock lock = lock_engine();
  Gpu& gpu = gpu_at(device);
  ++gpu.retained;
  *out = &gpu.primary;
  return cudaSuccess;
}

cudaError_t release_primary(CUdevice device) {
  if (!is_gpu(device)) return cudaErrorInvalidDevice;
  Lock lock = lock_engine();
  Gpu& gpu = gpu_at(device);
  if (gpu.retained == 0) return cudaErrorDeviceUninitialized;
  if (--gpu.retained == 0 && !gpu.used.load(std::memory_order_relaxed)) synchronize(lock, gpu);
  return cudaSuccess;
}

cudaError_t reset_primary(CUdevice device) {
  if (!is_gpu(device)) return cudaErrorInvalidDevice;
  Lock lock = lock_engine();
  synchronize(lock, gpu_at(device));
  gpu_at(device).used.store(false, std::memory_order_relaxed);
  return cudaSuccess;
}

cudaError_t set_primary_flags(CUdevice device, unsigned flags) {
  if ((flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) != 0) return cudaErrorInvalidValue;
  if (!is_gpu(device)) return cudaErrorInvalidDevice;
  gpu_at(device).flags = flags;
  return cudaSuccess;
}

cudaError_t primary_state(CUdevice device, unsigned* flags, int* active) {
  if (flags == nullptr || active == nullptr) return cudaErrorInvalidValue;
  if (!is_gpu(device)) return cudaErrorInvalidDevice;
  *flags = gpu_at(device).flags;
  const Lock lock = lock_engine();
  const bool used = gpu_at(device).used.load(std::memory_order_relaxed);
  *active = used || gpu_at(device).retained != 0 ? 1 : 0;
  return cudaSuccess;
}

cudaError_t set_current(Thread& thread, CUcontext context) {
  if (context == nullptr) {
    if (thread.bound) static_cast<void>(pop(thread));
    return cudaSuccess;
  }
  if (const cudaError_t error = check(context); error != cudaSuccess) return error;
  set_top(thread, context);
  return cudaSuccess;
}

cudaError_t pop_current(Thread& thread, CUcontext* out) {
  const CUcontext top = pop(thread);
  if (out != nullptr) *out = top;
  return cudaSuccess;
}

/** `context`, or the current context for null. */
cudaError_t named(const Thread& thread, CUcontext context, CUcontext* out) {
  *out = context == nullptr ? current_context(thread) : context;
  if (*out == nullptr) return cudaErrorDeviceUninitialized;
  return check(*out);
}

cudaError_t device_of(const Thread& thread, CUcontext context, CUdevice* out) {
  if (out == nullptr) return cudaErrorInvalidValue;
  CUcontext found = nullptr;
  const cudaError_t error = named(thread, context, &found);
  if (error == cudaSuccess) *out = static_cast<CUdevice>(found->gpu->ordinal);
  return error;
}

unsigned& flags_of(const Thread& thread) {
  const CUcontext context = current_context(thread);
  return context->primary ? context->gpu->flags : context->flags;
}

cudaError_t id_of(const Thread& thread, CUcontext context, unsigned long long* id) {
  if (id == nullptr) return cudaErrorInvalidValue;
  CUcontext found = nullptr;
  const cudaError_t error = named(thread, context, &found);
  if (error == cudaSuccess) *id = found->id;
  return error;
}

cudaError_t api_version(const Thread& thread, CUcontext context, unsigned* version) {
  if (version == nullptr) return cudaErrorInvalidValue;
  CUcontext found = nullptr;
  const cudaError_t error = named(thread, context, &found);
  if (error == cudaSuccess) *version = kApiVersion;
  return error;
}

cudaError_t synchronize_context(const Thread& thread, CUcontext context) {
  CUcontext found = nullptr;
  if (const cudaError_t error = named(thread, context, &found); error != cudaSuccess) return error;
  // cudaDeviceSynchronize has the checks for captures, and works on the current GPU.
  const int before = std::exchange(this_thread->device, static_cast<int>(found->gpu->ordinal));
  const cudaError_t error = MILLRACE_AS(cudaDeviceSynchronize);
  this_thread->device = before;
  return error;
}

cudaError_t enable_peer(CUcontext peer, unsigned flags) {
  if (const cudaError_t error = check(peer); error != cudaSuccess) return error;
  return MILLRACE_AS(cudaDeviceEnablePeerAccess, static_cast<int>(peer->gpu->ordinal), flags);
}

cudaError_t disable_peer(CUcontext peer) {
  if (const cudaError_t error = check(peer); error != cudaSuccess) return error;
  return MILLRACE_AS(cudaDeviceDisablePeerAccess, static_cast<int>(peer->gpu->ordinal));
}

}  // namespace

CUcontext current_context(const Thread& thread) noexcept {
  if (!thread.bound) return nullptr;
  if (thread.context != nullptr) return thread.context;
  return &gpu_at(thread.device).primary;
}

}  // namespace millrace::virtual_cuda

using namespace millrace::virtual_cuda;

// The primary context of each GPU

MILLRACE_DRIVER_CALL(cuDevicePrimaryCtxRetain, (CUcontext * out, CUdevice device),
                     return retain_primary(out, device);)
MILLRACE_DRIVER_CALL(cuDevicePrimaryCtxRelease, (CUdevice device), return release_primary(device);)
MILLRACE_DRIVER_CALL(cuDevicePrimaryCtxRelease_v2, (CUdevice device),
                     return release_primary(device);)
MILLRACE_DRIVER_CALL(cuDevicePrimaryCtxReset, (CUdevice device), return reset_primary(device);)
MILLRACE_DRIVER_CALL(cuDevicePrimaryCtxReset_v2, (CUdevice device), return reset_primary(device);)
MILLRACE_DRIVER_CALL(cuDevicePrimaryCtxSetFlags, (CUdevice device, unsigned flags),
                     return set_primary_flags(device, flags);)
MILLRACE_DRIVER_CALL(cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned flags),
                     return set_primary_flags(device, flags);)
MILLRACE_DRIVER_CALL(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned* flags, int* active),
                     return primary_state(device, flags, active);)

// Other contexts

MILLRACE_DRIVER_CALL(cuCtxCreate, (CUcontext * made, unsigned flags, CUdevice device),
                     return create(thread, made, flags, device);)
MILLRACE_DRIVER_CALL(cuCtxCreate_v2, (CUcontext * made, unsigned flags, CUdevice device),
                     return create(thread, made, flags, device);)
MILLRACE_DRIVER_CALL(cuCtxCreate_v3,
                     (CUcontext * made, void*, int affinities, unsigned flags, CUdevice device),
                     return affinities != 0 ? cudaErrorNotSupported
                                            : create(thread, made, flags, device);)
MILLRACE_DRIVER_CALL(
    cuCtxCreate_v4,
    (CUcontext * made, CUctxCreateParams* parameters, unsigned flags, CUdevice device),
    if (parameters != nullptr && (parameters->numExecAffinityParams != 0 ||
                                  parameters->cigParams != nullptr)) return cudaErrorNotSupported;
    return create(thread, made, flags, device);)
MILLRACE_DRIVER_CALL(cuCtxDestroy, (CUcontext context), return destroy(thread, context);)
MILLRACE_DRIVER_CALL(cuCtxDestroy_v2, (CUcontext context), return destroy(thread, context);)
MILLRACE_CONTEXT_CALL(cuCtxAttach, (CUcontext * out, unsigned flags),
                      if (out == nullptr || flags != 0) return cudaErrorInvalidValue;
                      *out = current_context(thread); return cudaSuccess;)
MILLRACE_CONTEXT_CALL(cuCtxDetach, (CUcontext context),
                      return context == current_context(thread) ? cudaSuccess
                                                                : cudaErrorDeviceUninitialized;)

// The stack of the calling thread

MILLRACE_DRIVER_CALL(cuCtxPushCurrent, (CUcontext context),
                     if (const cudaError_t error = check(context);
                         error != cudaSuccess) return error;
                     push(thread, context); return cudaSuccess;)
MILLRACE_DRIVER_CALL(cuCtxPushCurrent_v2, (CUcontext context),
                     if (const cudaError_t error = check(context);
                         error != cudaSuccess) return error;
                     push(thread, context); return cudaSuccess;)
MILLRACE_CONTEXT_CALL(cuCtxPopCurrent, (CUcontext * out), return pop_current(thread, out);)
MILLRACE_CONTEXT_CALL(cuCtxPopCurrent_v2, (CUcontext * out), return pop_current(thread, out);)
MILLRACE_DRIVER_CALL(cuCtxSetCurrent, (CUcontext context), return set_current(thread, context);)
MILLRACE_DRIVER_CALL(cuCtxGetCurrent, (CUcontext * out),
                     if (out == nullptr) return cudaErrorInvalidValue;
                     *out = current_context(thread); return cudaSuccess;)
MILLRACE_CONTEXT_CALL(cuCtxGetDevice, (CUdevice * out), return device_of(thread, nullptr, out);)
MILLRACE_DRIVER_CALL(cuCtxGetDevice_v2, (CUdevice * out, CUcontext context),
                     return device_of(thread, context, out);)
MILLRACE_CONTEXT_CALL(cuCtxGetFlags, (unsigned* flags),
                      if (flags == nullptr) return cudaErrorInvalidValue;
                      *flags = flags_of(thread); return cudaSuccess;)
MILLRACE_CONTEXT_CALL(cuCtxSetFlags, (unsigned flags),
                      if ((flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) !=
                          0) return cudaErrorInvalidValue;
                      flags_of(thread) = flags; return cudaSuccess;)
MILLRACE_DRIVER_CALL(cuCtxGetId, (CUcontext context, unsigned long long* id),
                     return id_of(thread, context, id);)
MILLRACE_DRIVER_CALL(cuCtxGetApiVersion, (CUcontext context, unsigned* version),
                     return api_version(thread, context, version);)

// State of a context

MILLRACE_CONTEXT_CALL(cuCtxSynchronize, (), return synchronize_context(thread, nullptr);)
MILLRACE_DRIVER_CALL(cuCtxSynchronize_v2, (CUcontext context),
                     return synchronize_context(thread, context);)
MILLRACE_CONTEXT_CALL(cuCtxSetLimit, (cudaLimit limit, std::size_t value),
                      return MILLRACE_AS(cudaDeviceSetLimit, limit, value);)
MILLRACE_CONTEXT_CALL(cuCtxGetLimit, (std::size_t * value, cudaLimit limit),
                      return MILLRACE_AS(cudaDeviceGetLimit, value, limit);)
MILLRACE_CONTEXT_CALL(cuCtxGetCacheConfig, (cudaFuncCache * config),
                      return MILLRACE_AS(cudaDeviceGetCacheConfig, config);)
MILLRACE_CONTEXT_CALL(cuCtxGetSharedMemConfig, (cudaSharedMemConfig * config),
                      return MILLRACE_AS(cudaDeviceGetSharedMemConfig, config);)
MILLRACE_CONTEXT_CALL(cuCtxGetStreamPriorityRange, (int* least, int* greatest),
                      return MILLRACE_AS(cudaDeviceGetStreamPriorityRange, least, greatest);)
MILLRACE_CONTEXT_CALL(cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags),
                      return enable_peer(peer, flags);)
MILLRACE_CONTEXT_CALL(cuCtxDisablePeerAccess, (CUcontext peer), return disable_peer(peer);)
