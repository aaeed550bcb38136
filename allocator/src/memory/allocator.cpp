// The default for batches: one call for each request or block.

#include "millrace/memory/allocator.hpp"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <vector>

#include "memory/contract.hpp"

namespace millrace {

void Allocator::allocate(std::span<const std::size_t> sizes, std::span<void*> addresses,
                         StreamRef stream, Tag tag) {
  if (sizes.size() != addresses.size()) {
    throw std::invalid_argument{"allocate: a batch takes as many addresses as sizes"};
  }
  if (!sizes.empty()) allocate_batch(sizes, addresses, stream, tag);
}

void Allocator::deallocate(std::span<void* const> addresses) {
  if (!addresses.empty()) deallocate_batch(addresses, nullptr);
}

void Allocator::deallocate(std::span<void* const> addresses, StreamRef stream) {
  if (!addresses.empty()) deallocate_batch(addresses, &stream);
}

void Allocator::allocate_batch(std::span<const std::size_t> sizes, std::span<void*> addresses,
                               StreamRef stream, Tag tag) {
  std::vector<void*> got;
  got.reserve(sizes.size());
  try {
    for (const std::size_t bytes : sizes) got.push_back(allocate(bytes, stream, tag));
  } catch (...) {
    for (void* const address : got) {
      try {
        deallocate(address);
      } catch (const std::exception&) {  // the batch's own error is thrown; free the other blocks
      }
    }
    throw;
  }
  std::ranges::copy(got, addresses.begin());
}

void Allocator::deallocate_batch(std::span<void* const> addresses, const StreamRef* stream) {
  std::vector<void*> sorted;
  sorted.reserve(addresses.size());
  for (void* const address : addresses) {
    if (address == nullptr) continue;
    if (!is_live(address)) refuse_address("deallocate", address);
    sorted.push_back(address);
  }
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) refuse_address("deallocate", *twice);
  for (void* const address : addresses) {
    if (stream == nullptr) {
      deallocate(address);
    } else {
      deallocate(address, *stream);
    }
  }
}

}  // namespace millrace
