#include "model/cuda/row_cache.cu"

#include <cuda_runtime.h>

#include "model/host/row_cache.hpp"
#include "test/virtual_kernels/rows.hpp"

namespace millrace::test::virtual_kernels {

using namespace model;
namespace code = model::cuda;
namespace host = model::host;

namespace {

template <typename Key>
void claim(const BringRowsArguments<float, Key>& arguments) {
  host::SlotClaims<float, Key>{arguments}.claim();
}

template <typename Key>
void move(const BringRowsArguments<float, Key>& arguments) {
  for (std::size_t i = 0; i < arguments.wanted.count[0]; ++i) {
    if (arguments.moves[i].row >= 0) host::move_row(arguments, arguments.moves[i]);
  }
}

}  // namespace

void add_rows_of_row_cache(std::vector<Row>& rows) {
  rows.push_back(twin<code::empty_slots_kernel, host::empty_slots<float>>());
  for_types<std::uint32_t, std::uint64_t>([&]<typename Key>() {
    rows.push_back(twin<code::claim_slots<Key>, claim<Key>>());
    rows.push_back(twin<code::move_rows<Key>, move<Key>>());
    rows.push_back(twin<code::locate_rows_kernel<Key>, host::locate_rows<Key>>());
  });
  for_ids_and_offsets([&]<typename Id, typename Offset>() {
    rows.push_back(twin<code::locate_ids_kernel<Id, Offset>, host::locate_ids<Id, Offset>>());
    for_types<std::uint32_t, std::uint64_t>([&]<typename Key>() {
      rows.push_back(
          twin<code::cache_keys_kernel<Key, Id, Offset>, host::cache_keys<Key, Id, Offset>>());
    });
  });
}

}  // namespace millrace::test::virtual_kernels
