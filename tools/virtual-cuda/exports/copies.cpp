#include <cstring>

#include "exports/transfer.hpp"

using namespace millrace;
using namespace millrace::virtual_cuda;

namespace {

/** The fast path of a copy under the schedule `instant`: it makes no operation. */
bool copied_at_once(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (!quick() || to == nullptr || from == nullptr || !plainly_allowed(kind, to, from))
    return false;
  const Memory& memory = runtime().memory;
  std::memmove(memory.data(to), memory.data(from), bytes);
  return true;
}

cudaError_t copy_row(CUstream_st* stream, void* to, const void* from, std::size_t bytes,
                     cudaMemcpyKind kind, Host host) {
  if (stream != nullptr && copied_at_once(to, from, bytes, kind)) return cudaSuccess;
  return copy(stream, {plane(to), plane(from), bytes, 1, 1, Direction::on_device, kind, {}}, host);
}

CopyWork row(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return {plane(to), plane(from), bytes, 1, 1, Direction::on_device, kind, {}};
}

cudaError_t copy_rows(CUstream_st* stream, void* to, std::size_t to_pitch, const void* from,
                      std::size_t from_pitch, std::size_t width, std::size_t height,
                      cudaMemcpyKind kind, Host host) {
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
  return copy(stream,
              {plane(to, to_pitch),
               plane(from, from_pitch),
               width,
               height,
               1,
               Direction::on_device,
               kind,
               {}},
              host);
}

cudaError_t copy_box(CUstream_st* stream, const cudaMemcpy3DParms* parameters, Host host) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  CopyWork work;
  const cudaError_t error = from_parameters(*parameters, work);
  return error != cudaSuccess ? error : copy(stream, std::move(work), host);
}

cudaError_t copy_box(CUstream_st* stream, const cudaMemcpy3DPeerParms* parameters, Host host) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  if (!is_gpu(parameters->srcDevice) || !is_gpu(parameters->dstDevice))
    return cudaErrorInvalidDevice;
  const cudaMemcpy3DParms plain{parameters->srcArray, parameters->srcPos, parameters->srcPtr,
                                parameters->dstArray, parameters->dstPos, parameters->dstPtr,
                                parameters->extent,   cudaMemcpyDefault};
  return copy_box(stream, &plain, host);
}

cudaError_t copy_peer(CUstream_st* stream, void* to, int to_gpu, const void* from, int from_gpu,
                      std::size_t bytes) {
  if (!is_gpu(to_gpu) || !is_gpu(from_gpu)) return cudaErrorInvalidDevice;
  return copy(stream, row(to, from, bytes, cudaMemcpyDefault), Host::goes_on);
}

cudaError_t copy_to_symbol(CUstream_st* stream, const void* symbol, const void* from,
                           std::size_t bytes, std::size_t offset, cudaMemcpyKind kind, Host host) {
  void* to = nullptr;
  const cudaError_t error = symbol_address(symbol, offset, bytes, &to);
  return error != cudaSuccess ? error : copy(stream, row(to, from, bytes, kind), host);
}

cudaError_t copy_from_symbol(CUstream_st* stream, void* to, const void* symbol, std::size_t bytes,
                             std::size_t offset, cudaMemcpyKind kind, Host host) {
  void* from = nullptr;
  const cudaError_t error = symbol_address(symbol, offset, bytes, &from);
  return error != cudaSuccess ? error : copy(stream, row(to, from, bytes, kind), host);
}

cudaError_t fill_row(CUstream_st* stream, void* to, int value, std::size_t bytes, Host host) {
  const Memory& memory = runtime().memory;
  if (stream != nullptr && quick() && memory.in_gpu(to)) {
    std::memset(memory.data(to), value, bytes);
    return cudaSuccess;
  }
  return fill(stream, {plane(to), static_cast<unsigned char>(value), 1, bytes, 1, 1}, host);
}

FillWork bytes_of(void* to, int value, std::size_t pitch, std::size_t layer_rows, std::size_t width,
                  std::size_t height, std::size_t depth) {
  return {plane(to, pitch, layer_rows), static_cast<unsigned char>(value), 1, width, height, depth};
}

cudaError_t fill_rows(CUstream_st* stream, void* to, std::size_t pitch, int value,
                      std::size_t width, std::size_t height, Host host) {
  if (height > 1 && width > pitch) return cudaErrorInvalidPitchValue;
  return fill(stream, bytes_of(to, value, pitch, 0, width, height, 1), host);
}

cudaError_t fill_box(CUstream_st* stream, cudaPitchedPtr to, int value, cudaExtent extent,
                     Host host) {
  if (extent.height > 1 && extent.width > to.pitch) return cudaErrorInvalidPitchValue;
  return fill(
      stream,
      bytes_of(to.ptr, value, to.pitch, to.ysize, extent.width, extent.height, extent.depth), host);
}

}  // namespace

MILLRACE_TWINS(cudaMemcpy, ptds,
               (void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind),
               return copy_row(find_stream(nullptr, meaning), to, from, bytes, kind, Host::waits);)
MILLRACE_TWINS(cudaMemcpyAsync, ptsz,
               (void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                cudaStream_t stream),
               return copy_row(find_stream(stream, meaning), to, from, bytes, kind, Host::goes_on);)
MILLRACE_TWINS(cudaMemcpy2D, ptds,
               (void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                std::size_t width, std::size_t height, cudaMemcpyKind kind),
               return copy_rows(find_stream(nullptr, meaning), to, to_pitch, from, from_pitch,
                                width, height, kind, Host::waits);)
MILLRACE_TWINS(cudaMemcpy2DAsync, ptsz,
               (void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream),
               return copy_rows(find_stream(stream, meaning), to, to_pitch, from, from_pitch, width,
                                height, kind, Host::goes_on);)
MILLRACE_TWINS(cudaMemcpy3D, ptds, (const cudaMemcpy3DParms* parameters),
               return copy_box(find_stream(nullptr, meaning), parameters, Host::waits);)
MILLRACE_TWINS(cudaMemcpy3DAsync, ptsz, (const cudaMemcpy3DParms* parameters, cudaStream_t stream),
               return copy_box(find_stream(stream, meaning), parameters, Host::goes_on);)
MILLRACE_TWINS(cudaMemcpy3DPeer, ptds, (const cudaMemcpy3DPeerParms* parameters),
               return copy_box(find_stream(nullptr, meaning), parameters, Host::goes_on);)
MILLRACE_TWINS(cudaMemcpy3DPeerAsync, ptsz,
               (const cudaMemcpy3DPeerParms* parameters, cudaStream_t stream),
               return copy_box(find_stream(stream, meaning), parameters, Host::goes_on);)
MILLRACE_CALL(cudaMemcpyPeer,
              (void* to, int to_gpu, const void* from, int from_gpu, std::size_t bytes),
              return copy_peer(find_stream(nullptr, Default::legacy), to, to_gpu, from, from_gpu,
                               bytes);)
MILLRACE_CALL(cudaMemcpyPeerAsync,
              (void* to, int to_gpu, const void* from, int from_gpu, std::size_t bytes,
               cudaStream_t stream),
              return copy_peer(find_stream(stream, Default::legacy), to, to_gpu, from, from_gpu,
                               bytes);)
MILLRACE_TWINS(cudaMemcpyToSymbol, ptds,
               (const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                cudaMemcpyKind kind),
               return copy_to_symbol(find_stream(nullptr, meaning), symbol, from, bytes, offset,
                                     kind, Host::waits);)
MILLRACE_TWINS(cudaMemcpyFromSymbol, ptds,
               (void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                cudaMemcpyKind kind),
               return copy_from_symbol(find_stream(nullptr, meaning), to, symbol, bytes, offset,
                                       kind, Host::waits);)
MILLRACE_TWINS(cudaMemcpyToSymbolAsync, ptsz,
               (const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                cudaMemcpyKind kind, cudaStream_t stream),
               return copy_to_symbol(find_stream(stream, meaning), symbol, from, bytes, offset,
                                     kind, Host::goes_on);)
MILLRACE_TWINS(cudaMemcpyFromSymbolAsync, ptsz,
               (void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                cudaMemcpyKind kind, cudaStream_t stream),
               return copy_from_symbol(find_stream(stream, meaning), to, symbol, bytes, offset,
                                       kind, Host::goes_on);)
MILLRACE_TWINS(cudaMemset, ptds, (void* to, int value, std::size_t bytes),
               return fill_row(find_stream(nullptr, meaning), to, value, bytes, Host::waits);)
MILLRACE_TWINS(cudaMemsetAsync, ptsz, (void* to, int value, std::size_t bytes, cudaStream_t stream),
               return fill_row(find_stream(stream, meaning), to, value, bytes, Host::goes_on);)
MILLRACE_TWINS(cudaMemset2D, ptds,
               (void* to, std::size_t pitch, int value, std::size_t width, std::size_t height),
               return fill_rows(find_stream(nullptr, meaning), to, pitch, value, width, height,
                                Host::waits);)
MILLRACE_TWINS(cudaMemset2DAsync, ptsz,
               (void* to, std::size_t pitch, int value, std::size_t width, std::size_t height,
                cudaStream_t stream),
               return fill_rows(find_stream(stream, meaning), to, pitch, value, width, height,
                                Host::goes_on);)
MILLRACE_TWINS(cudaMemset3D, ptds, (cudaPitchedPtr to, int value, cudaExtent extent),
               return fill_box(find_stream(nullptr, meaning), to, value, extent, Host::waits);)
MILLRACE_TWINS(cudaMemset3DAsync, ptsz,
               (cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream),
               return fill_box(find_stream(stream, meaning), to, value, extent, Host::goes_on);)
MILLRACE_CALL(cudaGetSymbolAddress, (void** address, const void* symbol),
              return address == nullptr ? cudaErrorInvalidValue
                                        : symbol_address(symbol, 0, 0, address);)
