#pragma once

#include "millrace/streamer/sink.hpp"

namespace millrace::sink {

/** @throws SinkError (overtaken): a mark of the later epoch `there` is in the sink */
[[noreturn]] void refuse_overtaken(std::uint64_t there, std::uint64_t epoch, std::string_view name);

/**
 * @brief Whether a batch with this mark is to be written where those marks are; if not, it is a
 *        repeat.
 * @throws SinkError: lost if it goes behind a mark that is not the rank's newest; overtaken if that
 *         one is of a later epoch
 */
[[nodiscard]] bool continues(const SinkState& state, const StepMark& mark, std::string_view name);

/** @throws SinkError (wrong) if it is another schema than that of the sink, which has one */
void check_schema(const StreamSchema& given, const SinkState& state, std::string_view name);

/** @throws SinkError (wrong) for a sink that has marks, and no schema any more */
void check_has_schema(const SinkState& state, std::string_view name);

}  // namespace millrace::sink
