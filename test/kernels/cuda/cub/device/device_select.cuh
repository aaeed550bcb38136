#pragma once

#include "cub/temporary_storage.hpp"

namespace cub {

struct DeviceSelect {
  template <typename In, typename Out, typename Count, typename Predicate>
  static cudaError_t If(void* storage, std::size_t& bytes, In in, Out out, Count* selected,
                        int count, Predicate predicate, cudaStream_t) {
    if (count < 0) return cudaErrorInvalidValue;
    const std::size_t needed =
        ::millrace::test::kernels::storage_for(static_cast<std::size_t>(count));
    return ::millrace::test::kernels::with_storage(storage, bytes, needed, [&] {
      Count found = 0;
      for (int i = 0; i < count; ++i, ++in) {
        if (!predicate(*in)) continue;
        *out = *in;
        ++out;
        ++found;
      }
      *selected = found;
    });
  }
};

}  // namespace cub
