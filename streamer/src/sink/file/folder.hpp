#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "millrace/streamer/schema.hpp"
#include "sink/file/segment.hpp"

namespace millrace::sink {

/**
 * @brief Returns the folder of "file:DIR". @throws std::invalid_argument if the name is missing, or
 * its parent does not exist: parents are not created, because a wrong path is a mistake
 */
[[nodiscard]] std::filesystem::path folder_of(std::string_view spec, std::string_view prefix);

/** @brief Makes the folder, but not its parents. @throws SinkError */
void make_folder(const std::filesystem::path& folder);

/** @return the schema of the folder's tables; nothing if it is empty or does not exist
 *  @throws SinkError (wrong) if the file is not a schema */
[[nodiscard]] std::optional<StreamSchema> read_schema(const std::filesystem::path& folder);

/**
 * @brief Makes the folder and writes its schema, completely or not at all.
 * @return the folder's schema: another rank's, if that rank was the first to write it
 * @throws SinkError: wrong for a folder that has other files
 */
[[nodiscard]] StreamSchema create_schema(const std::filesystem::path& folder,
                                         const StreamSchema& schema);

/** @return the number of the newest snapshot request; 0: none. @throws SinkError */
[[nodiscard]] std::uint64_t snapshot_request_in(const std::filesystem::path& folder);
/** @brief Requests a snapshot, with another number than the request before. @throws SinkError */
void request_snapshot(const std::filesystem::path& folder);

}  // namespace millrace::sink
