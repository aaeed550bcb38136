#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory_resource>
#include <new>

namespace millrace::bench {

/// Host memory from the operating system. Memory of a machine therefore does not count as an
/// allocator's host memory. The system provides the pages at once, so that no later access waits
/// for one.
class MappedPages final : public std::pmr::memory_resource {
 private:
  void* do_allocate(std::size_t bytes, std::size_t) override {
    void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc{};
    return pages;
  }
  void do_deallocate(void* pages, std::size_t bytes, std::size_t) override { munmap(pages, bytes); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return dynamic_cast<const MappedPages*>(&other) != nullptr;
  }
};

}  // namespace millrace::bench
