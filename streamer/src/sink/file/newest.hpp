#pragma once

#include <filesystem>
#include <functional>

#include "millrace/streamer/record.hpp"
#include "sink/deadline.hpp"

namespace millrace::sink {

/**
 * @brief Visits the newest version of each row in the folder's whole batches. Reads all segments
 *        twice, and keeps the place of each row in memory, not its contents.
 * @param finish_by  after it, SinkError (retry) is thrown
 * @throws RecordError that names file and offset, for damaged data
 */
void read_newest(const std::filesystem::path& folder, const StreamSchema& schema,
                 const std::function<void(const RowRecord&)>& visit,
                 const Deadline::Shared& finish_by);

}  // namespace millrace::sink
