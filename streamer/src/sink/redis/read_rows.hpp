#pragma once

#include <functional>
#include <string>

#include "millrace/streamer/record.hpp"
#include "sink/redis/connection.hpp"

namespace millrace::sink {

/**
 * @brief Visits every row of the schema that a server has under keys `<prefix>TABLE:ROW`, each
 * once.
 * @throws SinkError; RecordError for a value that is not the record of its key; what `visit` throws
 */
void read_redis_rows(RedisConnection& connection, const std::string& prefix,
                     const StreamSchema& schema,
                     const std::function<void(const RowRecord&)>& visit);

/**
 * @brief Visits the table and number of each row of the schema that a server has, some more than
 * once.
 * @throws SinkError; what `visit` throws
 */
void list_redis_rows(RedisConnection& connection, const std::string& prefix,
                     const StreamSchema& schema,
                     const std::function<void(std::uint32_t table, std::int64_t row)>& visit);

}  // namespace millrace::sink
