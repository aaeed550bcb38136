#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>

namespace millrace {

/** @brief A file cannot be written; `what()` is the reason alone, as "it is a folder". */
class WholeFileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/**
 * @brief Writes a file that appears whole or not at all, and replaces what had its name.
 *
 * The bytes go to a file that has no name yet. `finish` writes them to the disk and then gives them
 * the name. A process that is killed before that leaves nothing behind. On a file system that has
 * no files without a name, the bytes go to a hidden file beside the target; the next writer of the
 * same target takes over what a killed process left there. Two processes that write one target at
 * the same time do not mix their bytes: the last one to finish is what remains.
 *
 * A symbolic link is followed: the file that it leads to is replaced, also if that file does not
 * exist yet. A file that is replaced passes its permissions on. A device or a pipe has nothing to
 * replace: the bytes are written to it directly.
 */
class WholeFile {
 public:
  /** @brief Where the bytes are until they are complete. */
  enum class Draft {
    unnamed,  ///< without a name where the file system can do that, otherwise as `hidden`
    hidden    ///< in a hidden file beside the target
  };

  /**
   * @param file  the target; opening a pipe waits for its reader
   * @throws WholeFileError if it cannot be written
   */
  explicit WholeFile(const std::filesystem::path& file, Draft draft = Draft::unnamed);
  /** @brief Without `finish` the target stays as it was. */
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  /** @throws WholeFileError for instance if the disk is full */
  void write(std::span<const std::byte> bytes);
  /** @brief The bytes are on the disk, and then they have their name. @throws WholeFileError */
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
 * @brief Refuses a target that could not be written; nothing is changed and no pipe is opened.
 * @throws WholeFileError
 */
void check_whole_file(const std::filesystem::path& file);

/**
 * @brief The file that a path stands for, without symbolic links, absolute. A link to a file that
 *        does not exist yet leads to that file; folders that do not exist keep their names.
 */
[[nodiscard]] std::filesystem::path without_links(const std::filesystem::path& path);

}  // namespace millrace
