#pragma once

#include <filesystem>
#include <optional>

namespace millrace::test {

/// Returns the folder of sample data, which is not part of the repository: MILLRACE_DATA, otherwise
/// `shared/data` beside the project, or nothing. Tests that need it SKIP without it.
[[nodiscard]] std::optional<std::filesystem::path> data_folder();

/// The folder of the project's sources.
[[nodiscard]] std::filesystem::path source_folder();

}  // namespace millrace::test
