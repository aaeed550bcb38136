#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace millrace::text {

/** @brief A file cannot be read. `what()` is the reason, without the file's name. */
class FileProblem : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/**
 * @brief The whole content of a regular file or of a pipe. Folders and devices (/dev/zero has no
 * end) are refused before anything is read.
 * @param most       bytes; a regular file that has more is not read at all, a pipe not beyond them
 * @param beginning  called once with the first bytes (up to 64 KiB), and may throw to stop here
 * @throws FileProblem with the limit or the system's reason
 */
[[nodiscard]] std::string read_file(
    const std::filesystem::path& file, std::uint64_t most,
    const std::function<void(std::string_view)>& beginning = nullptr);

}  // namespace millrace::text
