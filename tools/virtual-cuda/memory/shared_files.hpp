#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace millrace::virtual_cuda {

/**
 * @brief Files that stand for memory: a program exports memory as one, and imports it again from
 *        the file or from a duplicate.
 *
 * A file is one end of a pipe. The runtime keeps the other end, which tells when the last duplicate
 * of the first one is closed, and with it the program's hold on the memory.
 */
class SharedFiles {
 public:
  /** @return the program's file; -1 if the process can have no more files */
  [[nodiscard]] int make(std::uint64_t object);
  /** @brief The object of a file of `make`, or of a duplicate. */
  [[nodiscard]] std::optional<std::uint64_t> find(int file) const;
  /** @brief Objects of files that are closed, each as often as it had such files. They are
   *         forgotten. */
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

/** @brief Whether `file` may be one that another process has exported. */
[[nodiscard]] bool may_be_of_another_process(int file);

}  // namespace millrace::virtual_cuda
