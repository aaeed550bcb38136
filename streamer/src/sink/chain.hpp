#pragma once

#include "millrace/streamer/sink.hpp"

namespace millrace::sink {

/** @throws SinkError (overtaken): a commit of the later epoch `there` is in the sink */
[[noreturn]] void refuse_overtaken(std::uint64_t there, std::uint64_t epoch, std::string_view name);

/**
 * @brief Whether a batch with this commit is to be written where those commits are; if not, it is a
 *        repeat.
 * @throws SinkError: lost if it goes behind a commit that is not the rank's newest; overtaken if
 * that one is of a later epoch
 */
[[nodiscard]] bool continues(const SinkState& state, const StepCommit& commit,
                             std::string_view name);

/** @throws SinkError (wrong) if it is another schema than that of the sink, which has one */
void check_schema(const StreamSchema& given, const SinkState& state, std::string_view name);

/** @throws SinkError (wrong) for a sink that has commits, and no schema any more */
void check_has_schema(const SinkState& state, std::string_view name);

}  // namespace millrace::sink
