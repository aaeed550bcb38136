#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace millrace::simulation {

[[noreturn]] inline void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/**
 * @brief Makes a file in memory that only this process has. Two mappings of it are the same memory.
 * @throws std::system_error if the system refuses it
 */
inline int make_memory_file(const char* name, std::size_t bytes) {
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file < 0) fail("making the memory of a virtual device");
  if (ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    close(file);
    errno = error;
    fail("sizing the memory of a virtual device");
  }
  return file;
}

/**
 * @brief Calls mmap without a reservation of swap.
 * @throws std::system_error if the system refuses it
 */
inline std::byte* map_memory(void* where, std::size_t bytes, int protection, int flags, int file,
                             std::size_t offset = 0) {
  void* const address =
      mmap(where, bytes, protection, flags | MAP_NORESERVE, file, static_cast<off_t>(offset));
  if (address == MAP_FAILED) fail("mapping the memory of a virtual device");
  return static_cast<std::byte*>(address);
}

// Poisoned memory: AddressSanitizer refuses it to all code except kernels that declared it as a
// view.
inline void poison([[maybe_unused]] std::byte* address, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(address, bytes);
#endif
}

inline void unpoison([[maybe_unused]] std::byte* address, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(address, bytes);
#endif
}

}  // namespace millrace::simulation
