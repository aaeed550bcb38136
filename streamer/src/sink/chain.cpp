#include "sink/chain.hpp"

#include <fmt/format.h>

namespace millrace::sink {

void refuse_overtaken(std::uint64_t there, std::uint64_t epoch, std::string_view name) {
  throw SinkError{
      SinkError::Kind::overtaken,
      fmt::format("{}: a later trainer, of epoch {}, writes there: nothing that this one, "
                  "of epoch {}, told counts any more; right: a sink of its own",
                  name, there, epoch)};
}

bool continues(const SinkState& state, const StepMark& mark, std::string_view name) {
  const auto found = state.marks.find(mark.rank);
  const Version newest = found == state.marks.end() ? Version{} : found->second.version;
  if (newest.epoch > mark.version.epoch) refuse_overtaken(newest.epoch, mark.version.epoch, name);
  if (newest >= mark.version) return false;
  if (mark.after == Version{} || mark.after == newest) return true;
  throw SinkError{
      SinkError::Kind::lost,
      fmt::format("{}: of rank {} it has {}, and what comes goes after {}", name, mark.rank,
                  newest == Version{} ? "nothing" : to_string(newest), to_string(mark.after))};
}

void check_schema(const StreamSchema& given, const SinkState& state, std::string_view name) {
  if (!state.schema || *state.schema == given) return;
  throw SinkError{
      SinkError::Kind::wrong,
      fmt::format("{} has other tables: {}; another sink would be right, or an empty one", name,
                  difference(given, *state.schema))};
}

void check_has_schema(const SinkState& state, std::string_view name) {
  if (state.schema || state.marks.empty()) return;
  throw SinkError{
      SinkError::Kind::wrong,
      fmt::format(
          "{} has the marks of {} ranks, but not the schema of their tables, which somebody "
          "has deleted (of a folder: schema.json; of a topic: its schema messages)",
          name, state.marks.size())};
}

}  // namespace millrace::sink
