#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>

namespace millrace {

/** @brief A file cannot be written. `what()` is only the reason, for instance "it is a folder". */
class WholeFileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/**
 * @brief Writes a file atomically: it appears complete or not at all, and replaces a file of the
 *        same name.
 *
 * The bytes go to a file without a name. `finish` flushes them to the disk and then gives the file
 * its name. A process that is killed before that leaves nothing. If the file system does not
 * support files without a name, the bytes go to a hidden file in the target's folder. A killed
 * process leaves that file, and the next writer of the same target reuses it. If two processes
 * write one target at the same time, their bytes are not mixed: the file of the last one to finish
 * remains.
 *
 * A symbolic link is followed: the file that it points to is replaced, or created if it does not
 * exist. The new file has the permissions of the file that it replaces. A device or a pipe cannot
 * be replaced: the bytes are written to it directly.
 */
class WholeFile {
 public:
  /** @brief The place of the bytes until `finish`. */
  enum class Draft {
    unnamed,  ///< in a file without a name if the file system supports it; otherwise `hidden`
    hidden    ///< in a hidden file in the target's folder
  };

  /**
   * @param file  the target; opening a pipe blocks until it has a reader
   * @throws WholeFileError if it cannot be written
   */
  explicit WholeFile(const std::filesystem::path& file, Draft draft = Draft::unnamed);
  /** @brief Without `finish` the target stays unchanged. */
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  /** @brief Appends bytes. @throws WholeFileError for instance if the disk is full */
  void write(std::span<const std::byte> bytes);
  /** @brief Flushes the bytes to the disk, then gives the file its name. @throws WholeFileError */
  void finish();

 private:
  void open_special();
  void open_unnamed();
  void open_hidden();
  void take_name();

  std::filesystem::path file_, hidden_;
  int descriptor_ = -1;
  bool special_ = false;  ///< a device or a pipe
  bool on_disk_ = false;  ///< `hidden_` is a name of this draft
  bool finished_ = false;
};

/**
 * @brief Checks that a target can be written. Changes nothing and opens no pipe.
 * @throws WholeFileError if it cannot be written
 */
void check_whole_file(const std::filesystem::path& file);

/**
 * @brief The absolute path of a file, with symbolic links resolved.
 *
 * A link to a file that does not exist resolves to that file. Folders that do not exist keep their
 * names.
 */
[[nodiscard]] std::filesystem::path without_links(const std::filesystem::path& path);

}  // namespace millrace
