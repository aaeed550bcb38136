// The runtime's copies from and to arrays whose widths are in bytes: copies of rows, and of lines.
// A line continues in the next row at the end of a row.

#include "exports/array_copies.hpp"

#include <algorithm>

#include "exports/arrays.hpp"

using namespace millrace;
using namespace millrace::virtual_cuda;

namespace {

cudaArray_t array_of(const Corner& corner) { return const_cast<cudaArray_t>(corner.array); }

bool says_host_target(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost;
}
bool says_host_source(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice;
}

cudaPitchedPtr rows_at(const void* memory, std::size_t pitch, std::size_t width,
                       std::size_t height) {
  return {const_cast<void*>(memory), pitch, width, height};
}

}  // namespace

namespace millrace::virtual_cuda {

cudaError_t copy_to_array(CUstream_st* stream, const Corner& to, const void* from,
                          std::size_t pitch, std::size_t width, std::size_t height,
                          cudaMemcpyKind kind, Host host) {
  if (to.array == nullptr) return cudaErrorInvalidValue;
  if (says_host_target(kind)) return cudaErrorInvalidMemcpyDirection;
  if (width > pitch) return cudaErrorInvalidPitchValue;
  cudaMemcpy3DParms box{};
  box.dstArray = array_of(to);
  box.dstPos = {to.x, to.y, 0};
  box.srcPtr = rows_at(from, pitch, width, height);
  box.extent = {width, height, 1};
  box.kind = kind;
  return copy_bytes_of_box(stream, box, host);
}

cudaError_t copy_from_array(CUstream_st* stream, void* to, std::size_t pitch, const Corner& from,
                            std::size_t width, std::size_t height, cudaMemcpyKind kind, Host host) {
  if (from.array == nullptr) return cudaErrorInvalidValue;
  if (says_host_source(kind)) return cudaErrorInvalidMemcpyDirection;
  if (width > pitch) return cudaErrorInvalidPitchValue;
  cudaMemcpy3DParms box{};
  box.srcArray = array_of(from);
  box.srcPos = {from.x, from.y, 0};
  box.dstPtr = rows_at(to, pitch, width, height);
  box.extent = {width, height, 1};
  box.kind = kind;
  return copy_bytes_of_box(stream, box, host);
}

cudaError_t copy_between_arrays(CUstream_st* stream, const Corner& to, const Corner& from,
                                std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  if (to.array == nullptr || from.array == nullptr) return cudaErrorInvalidValue;
  if (says_host_target(kind) || says_host_source(kind)) return cudaErrorInvalidMemcpyDirection;
  cudaMemcpy3DParms box{};
  box.dstArray = array_of(to);
  box.dstPos = {to.x, to.y, 0};
  box.srcArray = array_of(from);
  box.srcPos = {from.x, from.y, 0};
  box.extent = {width, height, 1};
  box.kind = kind;
  return copy_bytes_of_box(stream, box, Host::waits);
}

}  // namespace millrace::virtual_cuda

namespace {

/** One end of a copy of a line: in an array, or in memory, which counts as one long row. */
struct Line {
  Corner corner;
  std::byte* memory = nullptr;
  std::size_t row = ~std::size_t{0};  ///< bytes of a row

  [[nodiscard]] std::size_t left() const noexcept { return row - corner.x; }
  [[nodiscard]] bool starts_row() const noexcept { return corner.x == 0; }
  void advance(std::size_t bytes, std::size_t rows) noexcept {
    if (corner.array == nullptr) {
      memory += bytes * rows;
      return;
    }
    corner.x += bytes;
    if (corner.x < row) return;
    corner.x = 0;
    corner.y += rows;
  }
};

/** Checks that the array has at most two dimensions and contains these bytes of a line. */
cudaError_t find_row(Line& line, std::size_t bytes) {
  if (line.corner.array == nullptr) return cudaSuccess;
  ArrayShape shape;
  if (array_shape(line.corner.array, shape) != cudaSuccess || shape.extent.depth != 0)
    return cudaErrorInvalidValue;
  line.row = shape.row_bytes();
  if (line.corner.x >= line.row || line.corner.y >= shape.rows()) return cudaErrorInvalidValue;
  const std::size_t room = (shape.rows() - line.corner.y) * line.row - line.corner.x;
  return bytes <= room ? cudaSuccess : cudaErrorInvalidValue;
}

/** Copies as few boxes as possible: the rest of a row, all whole rows, and the start of a row. */
cudaError_t copy_line(CUstream_st* stream, Line to, Line from, std::size_t bytes,
                      cudaMemcpyKind kind, Host host) {
  if (to.corner.array != nullptr && says_host_target(kind)) return cudaErrorInvalidMemcpyDirection;
  if (from.corner.array != nullptr && says_host_source(kind))
    return cudaErrorInvalidMemcpyDirection;
  if (const cudaError_t error = find_row(to, bytes); error != cudaSuccess) return error;
  if (const cudaError_t error = find_row(from, bytes); error != cudaSuccess) return error;
  while (bytes != 0) {
    const std::size_t width = std::min({bytes, to.left(), from.left()});
    const auto whole = [&](const Line& line) {
      return line.corner.array == nullptr || (line.starts_row() && line.row == width);
    };
    const std::size_t rows = whole(to) && whole(from) ? bytes / width : 1;
    cudaError_t error = cudaSuccess;
    if (from.corner.array == nullptr) {
      error = copy_to_array(stream, to.corner, from.memory, width, width, rows, kind, host);
    } else if (to.corner.array == nullptr) {
      error = copy_from_array(stream, to.memory, width, from.corner, width, rows, kind, host);
    } else {
      error = copy_between_arrays(stream, to.corner, from.corner, width, rows, kind);
    }
    if (error != cudaSuccess) return error;
    to.advance(width, rows);
    from.advance(width, rows);
    bytes -= width * rows;
  }
  return cudaSuccess;
}

Line line_in(cudaArray_const_t array, std::size_t x, std::size_t y) { return {{array, x, y}}; }
Line line_at(const void* memory) {
  return {{nullptr, 0, 0}, const_cast<std::byte*>(static_cast<const std::byte*>(memory))};
}

/** @param array  the array in the function's name, which must not be null */
cudaError_t copy_line_of(cudaArray_const_t array, CUstream_st* stream, const Line& to,
                         const Line& from, std::size_t bytes, cudaMemcpyKind kind, Host host) {
  return array == nullptr ? cudaErrorInvalidValue : copy_line(stream, to, from, bytes, kind, host);
}

}  // namespace

MILLRACE_TWINS(cudaMemcpy2DToArray, ptds,
               (cudaArray_t to, std::size_t x, std::size_t y, const void* from, std::size_t pitch,
                std::size_t width, std::size_t height, cudaMemcpyKind kind),
               return copy_to_array(find_stream(nullptr, meaning), {to, x, y}, from, pitch, width,
                                    height, kind, Host::waits);)
MILLRACE_TWINS(cudaMemcpy2DToArrayAsync, ptsz,
               (cudaArray_t to, std::size_t x, std::size_t y, const void* from, std::size_t pitch,
                std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream),
               return copy_to_array(find_stream(stream, meaning), {to, x, y}, from, pitch, width,
                                    height, kind, Host::goes_on);)
MILLRACE_TWINS(cudaMemcpy2DFromArray, ptds,
               (void* to, std::size_t pitch, cudaArray_const_t from, std::size_t x, std::size_t y,
                std::size_t width, std::size_t height, cudaMemcpyKind kind),
               return copy_from_array(find_stream(nullptr, meaning), to, pitch, {from, x, y}, width,
                                      height, kind, Host::waits);)
MILLRACE_TWINS(cudaMemcpy2DFromArrayAsync, ptsz,
               (void* to, std::size_t pitch, cudaArray_const_t from, std::size_t x, std::size_t y,
                std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream),
               return copy_from_array(find_stream(stream, meaning), to, pitch, {from, x, y}, width,
                                      height, kind, Host::goes_on);)
MILLRACE_TWINS(cudaMemcpy2DArrayToArray, ptds,
               (cudaArray_t to, std::size_t to_x, std::size_t to_y, cudaArray_const_t from,
                std::size_t from_x, std::size_t from_y, std::size_t width, std::size_t height,
                cudaMemcpyKind kind),
               return copy_between_arrays(find_stream(nullptr, meaning), {to, to_x, to_y},
                                          {from, from_x, from_y}, width, height, kind);)
MILLRACE_TWINS(cudaMemcpyToArray, ptds,
               (cudaArray_t to, std::size_t x, std::size_t y, const void* from, std::size_t bytes,
                cudaMemcpyKind kind),
               return copy_line_of(to, find_stream(nullptr, meaning), line_in(to, x, y),
                                   line_at(from), bytes, kind, Host::waits);)
MILLRACE_TWINS(cudaMemcpyToArrayAsync, ptsz,
               (cudaArray_t to, std::size_t x, std::size_t y, const void* from, std::size_t bytes,
                cudaMemcpyKind kind, cudaStream_t stream),
               return copy_line_of(to, find_stream(stream, meaning), line_in(to, x, y),
                                   line_at(from), bytes, kind, Host::goes_on);)
MILLRACE_TWINS(cudaMemcpyFromArray, ptds,
               (void* to, cudaArray_const_t from, std::size_t x, std::size_t y, std::size_t bytes,
                cudaMemcpyKind kind),
               return copy_line_of(from, find_stream(nullptr, meaning), line_at(to),
                                   line_in(from, x, y), bytes, kind, Host::waits);)
MILLRACE_TWINS(cudaMemcpyFromArrayAsync, ptsz,
               (void* to, cudaArray_const_t from, std::size_t x, std::size_t y, std::size_t bytes,
                cudaMemcpyKind kind, cudaStream_t stream),
               return copy_line_of(from, find_stream(stream, meaning), line_at(to),
                                   line_in(from, x, y), bytes, kind, Host::goes_on);)
MILLRACE_TWINS(cudaMemcpyArrayToArray, ptds,
               (cudaArray_t to, std::size_t to_x, std::size_t to_y, cudaArray_const_t from,
                std::size_t from_x, std::size_t from_y, std::size_t bytes, cudaMemcpyKind kind),
               return to == nullptr
                          ? cudaErrorInvalidValue
                          : copy_line_of(from, find_stream(nullptr, meaning),
                                         line_in(to, to_x, to_y), line_in(from, from_x, from_y),
                                         bytes, kind, Host::waits);)
