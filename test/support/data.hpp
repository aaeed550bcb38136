#pragma once

#include <filesystem>
#include <optional>

namespace millrace::test {

/// The folder of sample data that is not part of the repository: MILLRACE_DATA, else `shared/data`
/// beside the project; nothing if that is not there. Tests that need it SKIP without it.
[[nodiscard]] std::optional<std::filesystem::path> data_folder();

/// The folder of the project's sources.
[[nodiscard]] std::filesystem::path source_folder();

}  // namespace millrace::test
