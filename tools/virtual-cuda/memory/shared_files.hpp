#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace millrace::virtual_cuda {

/**
 * @brief Files that represent memory. A program exports memory as a file, and imports the memory
 *        from the file or a duplicate.
 *
 * The file is the write end of a pipe. The runtime keeps the read end, which reports a hangup when
 * the last duplicate of the file is closed.
 */
class SharedFiles {
 public:
  /** @return the program's file; -1 if the process cannot open more files */
  [[nodiscard]] int make(std::uint64_t object);
  /** @brief The object of a file from `make` or of its duplicate; nothing for other files. */
  [[nodiscard]] std::optional<std::uint64_t> find(int file) const;
  /** @brief Removes the closed files. @return their objects, one entry for each file */
  [[nodiscard]] std::vector<std::uint64_t> take_closed();

 private:
  struct Shared {
    int kept = -1;
    dev_t device = 0;
    ino_t inode = 0;
    std::uint64_t object = 0;
  };

  std::vector<Shared> all_;
};

/** @brief Whether another process may have exported `file`. */
[[nodiscard]] bool may_be_of_another_process(int file);

}  // namespace millrace::virtual_cuda
