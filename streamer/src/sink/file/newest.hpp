#pragma once

#include <filesystem>
#include <functional>

#include "millrace/streamer/record.hpp"

namespace millrace::sink {

/**
 * @brief Visits the newest version of each row that the folder's whole batches have. Goes through
 *        all segments twice, and keeps of each row where it is, not what it says.
 * @throws RecordError, that names file and offset, for what is damaged
 */
void read_newest(const std::filesystem::path& folder, const StreamSchema& schema,
                 const std::function<void(const RowRecord&)>& visit);

}  // namespace millrace::sink
