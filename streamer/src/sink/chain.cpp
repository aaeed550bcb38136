#include "sink/chain.hpp"

#include <fmt/format.h>

namespace millrace::sink {

void refuse_overtaken(std::uint64_t there, std::uint64_t epoch, std::string_view name) {
  throw SinkError{
      SinkError::Kind::overtaken,
      fmt::format("{}: a later trainer, of epoch {}, writes to it: what this one, of epoch {}, "
                  "wrote no longer counts (use another sink)",
                  name, there, epoch)};
}

bool continues(const SinkState& state, const StepCommit& commit, std::string_view name) {
  const auto found = state.commits.find(commit.rank);
  const Version newest = found == state.commits.end() ? Version{} : found->second.version;
  if (newest.epoch > commit.version.epoch)
    refuse_overtaken(newest.epoch, commit.version.epoch, name);
  // A repeat: the caller did not learn that the first write succeeded.
  if (newest >= commit.version) return false;
  if (commit.after == Version{} || commit.after == newest) return true;
  refuse_lost(commit, newest, name);
}

void refuse_lost(const StepCommit& commit, Version newest, std::string_view name) {
  throw SinkError{
      SinkError::Kind::lost,
      fmt::format("{}: the batch of rank {} continues {}, but the sink has {}", name, commit.rank,
                  to_string(commit.after), newest == Version{} ? "nothing" : to_string(newest))};
}

void check_schema(const StreamSchema& given, const SinkState& state, std::string_view name) {
  if (!state.schema || *state.schema == given) return;
  throw SinkError{SinkError::Kind::wrong,
                  fmt::format("{} has other tables: {} (use another sink, or an empty one)", name,
                              difference(given, *state.schema))};
}

void check_has_schema(const SinkState& state, std::string_view name) {
  if (state.schema || state.commits.empty()) return;
  throw SinkError{
      SinkError::Kind::wrong,
      fmt::format("{} has the commits of {} ranks, but the schema of their tables was deleted "
                  "(schema.json of a folder, or the schema messages of a topic)",
                  name, state.commits.size())};
}

}  // namespace millrace::sink
