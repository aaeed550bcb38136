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
 * @brief Returns the whole content of a regular file or of a pipe. Refuses folders and devices
 *        before it reads anything (/dev/zero has no end).
 * @param file       path of the file
 * @param most       maximum size in bytes; a larger regular file is not read at all, a pipe only up
 *                   to this
 * @param beginning  called once with the first bytes (up to 64 KiB); may throw to stop reading
 * @throws FileProblem with the limit or the system's reason
 */
[[nodiscard]] std::string read_file(
    const std::filesystem::path& file, std::uint64_t most,
    const std::function<void(std::string_view)>& beginning = nullptr);

}  // namespace millrace::text
