#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "millrace/streamer/schema.hpp"
#include "sink/file/segment.hpp"

namespace millrace::sink {

/** @brief The folder of "file:DIR". @throws std::invalid_argument for no name, or if its parent
 * does not exist: paths are not created, since a wrong path is a mistake */
[[nodiscard]] std::filesystem::path folder_of(std::string_view spec, std::string_view prefix);

/** @brief Makes the folder, but not those above it. @throws SinkError */
void make_folder(const std::filesystem::path& folder);

/** @return the schema of the folder's tables; nothing if it is empty or does not exist
 *  @throws SinkError (wrong) if the file is not a schema */
[[nodiscard]] std::optional<StreamSchema> read_schema(const std::filesystem::path& folder);

/**
 * @brief Makes the folder, and writes its schema, whole or not at all.
 * @return the folder's schema: another rank's, if that one wrote it first
 * @throws SinkError: wrong for a folder that has other files
 */
[[nodiscard]] StreamSchema create_schema(const std::filesystem::path& folder,
                                         const StreamSchema& schema);

/** @return the number of the newest snapshot request; 0: there was none. @throws SinkError
 */
[[nodiscard]] std::uint64_t snapshot_request_in(const std::filesystem::path& folder);
/** @brief Requests a snapshot, with a greater number than all before. @throws SinkError */
void request_snapshot(const std::filesystem::path& folder);

}  // namespace millrace::sink
