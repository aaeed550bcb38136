#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "millrace/streamer/schema.hpp"
#include "sink/file/segment.hpp"

namespace millrace::sink {

/** @brief The folder of "file:DIR". @throws std::invalid_argument if it names none, or one in a
 * folder that is not there: paths are not made, since a wrong one is a mistake */
[[nodiscard]] std::filesystem::path folder_of(std::string_view spec, std::string_view prefix);

/** @brief Makes the folder, but not those above it. @throws SinkError */
void make_folder(const std::filesystem::path& folder);

/** @brief What the folder's tables are; nothing: it is empty, or not there.
 *  @throws SinkError (wrong) if it is no schema that is there */
[[nodiscard]] std::optional<StreamSchema> read_schema(const std::filesystem::path& folder);

/**
 * @brief Makes the folder, and writes its schema, whole or not at all.
 * @returns what it has then: another's, if that was there first
 * @throws SinkError: wrong for a folder in which others keep things
 */
[[nodiscard]] StreamSchema create_schema(const std::filesystem::path& folder,
                                         const StreamSchema& schema);

/** @brief The number of the newest request for all rows anew; 0: there was none. @throws SinkError
 */
[[nodiscard]] std::uint64_t snapshot_request_in(const std::filesystem::path& folder);
/** @brief Asks with a greater number than all before. @throws SinkError */
void request_snapshot(const std::filesystem::path& folder);

}  // namespace millrace::sink
