#pragma once

#include "millrace/streamer/sink.hpp"

namespace millrace::sink {

/** @throws SinkError (overtaken): the sink has a commit of the later epoch `there` */
[[noreturn]] void refuse_overtaken(std::uint64_t there, std::uint64_t epoch, std::string_view name);

/**
 * @brief Returns whether a sink must write a batch with this commit; false for a repeat.
 * @throws SinkError: lost if it continues another commit than the newest of its rank; overtaken if
 * that one is of a later epoch
 */
[[nodiscard]] bool continues(const SinkState& state, const StepCommit& commit,
                             std::string_view name);

/** @throws SinkError (wrong) if the sink has a schema that differs from this one */
void check_schema(const StreamSchema& given, const SinkState& state, std::string_view name);

/** @throws SinkError (wrong) for a sink that has commits but has lost its schema */
void check_has_schema(const SinkState& state, std::string_view name);

/** @throws SinkError (lost): the batch continues another commit than the newest one of its rank */
[[noreturn]] void refuse_lost(const StepCommit& commit, Version newest, std::string_view name);

}  // namespace millrace::sink
