#include "memory/array_format.hpp"

#include <algorithm>
#include <array>

namespace millrace::virtual_cuda {
namespace {

constexpr unsigned kAny = 0;  // any number of channels

constexpr std::array kFormats{
    ArrayFormat{CU_AD_FORMAT_UNSIGNED_INT8, cudaChannelFormatKindUnsigned, 8, kAny},
    ArrayFormat{CU_AD_FORMAT_UNSIGNED_INT16, cudaChannelFormatKindUnsigned, 16, kAny},
    ArrayFormat{CU_AD_FORMAT_UNSIGNED_INT32, cudaChannelFormatKindUnsigned, 32, kAny},
    ArrayFormat{CU_AD_FORMAT_SIGNED_INT8, cudaChannelFormatKindSigned, 8, kAny},
    ArrayFormat{CU_AD_FORMAT_SIGNED_INT16, cudaChannelFormatKindSigned, 16, kAny},
    ArrayFormat{CU_AD_FORMAT_SIGNED_INT32, cudaChannelFormatKindSigned, 32, kAny},
    ArrayFormat{CU_AD_FORMAT_HALF, cudaChannelFormatKindFloat, 16, kAny},
    ArrayFormat{CU_AD_FORMAT_FLOAT, cudaChannelFormatKindFloat, 32, kAny},
    ArrayFormat{CU_AD_FORMAT_UNORM_INT8X1, cudaChannelFormatKindUnsignedNormalized8X1, 8, 1},
    ArrayFormat{CU_AD_FORMAT_UNORM_INT8X2, cudaChannelFormatKindUnsignedNormalized8X2, 8, 2},
    ArrayFormat{CU_AD_FORMAT_UNORM_INT8X4, cudaChannelFormatKindUnsignedNormalized8X4, 8, 4},
    ArrayFormat{CU_AD_FORMAT_UNORM_INT16X1, cudaChannelFormatKindUnsignedNormalized16X1, 16, 1},
    ArrayFormat{CU_AD_FORMAT_UNORM_INT16X2, cudaChannelFormatKindUnsignedNormalized16X2, 16, 2},
    ArrayFormat{CU_AD_FORMAT_UNORM_INT16X4, cudaChannelFormatKindUnsignedNormalized16X4, 16, 4},
    ArrayFormat{CU_AD_FORMAT_SNORM_INT8X1, cudaChannelFormatKindSignedNormalized8X1, 8, 1},
    ArrayFormat{CU_AD_FORMAT_SNORM_INT8X2, cudaChannelFormatKindSignedNormalized8X2, 8, 2},
    ArrayFormat{CU_AD_FORMAT_SNORM_INT8X4, cudaChannelFormatKindSignedNormalized8X4, 8, 4},
    ArrayFormat{CU_AD_FORMAT_SNORM_INT16X1, cudaChannelFormatKindSignedNormalized16X1, 16, 1},
    ArrayFormat{CU_AD_FORMAT_SNORM_INT16X2, cudaChannelFormatKindSignedNormalized16X2, 16, 2},
    ArrayFormat{CU_AD_FORMAT_SNORM_INT16X4, cudaChannelFormatKindSignedNormalized16X4, 16, 4},
};

// The first row that `matches` and has this number of channels.
template <typename Matches>
bool find(unsigned channels, ArrayFormat& found, Matches matches) {
  if (channels != 1 && channels != 2 && channels != 4) return false;
  const auto* const row =
      std::find_if(kFormats.begin(), kFormats.end(), [&](const ArrayFormat& format) {
        return matches(format) && (format.channels == kAny || format.channels == channels);
      });
  if (row == kFormats.end()) return false;
  found = *row;
  found.channels = channels;
  return true;
}

// Formats of CUDA that arrays here do not have: NV12, block compression, 10-10-10-2 bits.
bool known_elsewhere(cudaChannelFormatKind kind) {
  return kind == cudaChannelFormatKindNV12 ||
         (kind > cudaChannelFormatKindSignedNormalized16X4 &&
          kind <= cudaChannelFormatKindUnsignedNormalized1010102);
}
bool known_elsewhere(CUarray_format format) {
  return format == CU_AD_FORMAT_UNORM_INT_101010_2 ||
         (format >= CU_AD_FORMAT_BC1_UNORM && format <= CU_AD_FORMAT_YUV444_16bit_SemiPlanar);
}

}  // namespace

cudaChannelFormatDesc ArrayFormat::description() const noexcept {
  const auto bits_of = [this](unsigned channel) {
    return channel < channels ? static_cast<int>(bits) : 0;
  };
  return {bits_of(0), bits_of(1), bits_of(2), bits_of(3), kind};
}

cudaError_t find_format(const cudaChannelFormatDesc& wanted, ArrayFormat& found) {
  if (known_elsewhere(wanted.f)) return cudaErrorNotSupported;
  const std::array bits{wanted.x, wanted.y, wanted.z, wanted.w};
  const auto end = std::find(bits.begin(), bits.end(), 0);
  const bool equal = std::all_of(bits.begin(), end, [&](int one) { return one == wanted.x; }) &&
                     std::all_of(end, bits.end(), [](int one) { return one == 0; });
  const bool known =
      equal && find(static_cast<unsigned>(end - bits.begin()), found, [&](const ArrayFormat& row) {
        return row.kind == wanted.f && static_cast<int>(row.bits) == wanted.x;
      });
  return known ? cudaSuccess : cudaErrorInvalidChannelDescriptor;
}

cudaError_t find_format(CUarray_format wanted, unsigned channels, ArrayFormat& found) {
  if (known_elsewhere(wanted)) return cudaErrorNotSupported;
  return find(channels, found, [&](const ArrayFormat& row) { return row.format == wanted; })
             ? cudaSuccess
             : cudaErrorInvalidValue;
}

}  // namespace millrace::virtual_cuda
