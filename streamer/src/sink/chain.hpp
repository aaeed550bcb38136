#pragma once

#include "millrace/streamer/sink.hpp"

namespace millrace::sink {

/**
 * @brief Whether a batch with this mark is to be written where those marks are; if not, it is a
 *        repeat.
 * @throws SinkError (lost) if it goes behind a mark that is not the rank's newest
 */
[[nodiscard]] bool continues(const SinkState& state, const StepMark& mark, std::string_view name);

/** @throws SinkError (wrong) if it is another schema than that of the sink, which has one */
void check_schema(const StreamSchema& given, const SinkState& state, std::string_view name);

/** @throws SinkError (wrong) for a sink that has marks, and no schema any more */
void check_has_schema(const SinkState& state, std::string_view name);

}  // namespace millrace::sink
