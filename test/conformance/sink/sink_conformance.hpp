#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "millrace/streamer/sink.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {

/// Where sinks of one kind put what they are given: empty at first, and gone with this object.
class SinkPlace {
 public:
  SinkPlace() = default;
  virtual ~SinkPlace() = default;
  SinkPlace(const SinkPlace&) = delete;
  SinkPlace& operator=(const SinkPlace&) = delete;

  /// A sink to it, opened as a process that starts opens one.
  [[nodiscard]] virtual std::unique_ptr<Sink> open() = 0;
  /// What reads it in order; null where the kind keeps none.
  [[nodiscard]] virtual std::unique_ptr<RecordSource> source() { return nullptr; }
  /// As open_sink takes it, for another process; empty: none could write to it.
  [[nodiscard]] virtual std::string spec() const { return {}; }
  /// Of a kind that has a peer, which takes connections and bytes, and answers nothing until
  /// `speak`.
  virtual void fall_silent() {}
  virtual void speak() {}
};

/// A kind of sink. What not every kind can is a property here, and laws that need it pass it by.
struct SinkFixture {
  std::string name;
  std::function<std::unique_ptr<SinkPlace>()> make_place;
  bool lasts = true;           ///< what was flushed outlives the sink, and others opened see it
  bool many_at_once = true;    ///< several sinks write to a place at a time, each its own ranks
  bool keeps_position = true;  ///< of whoever applies
  bool is_source = false;      ///< its places have one
  bool whole_steps = false;    ///< of a batch it has all or nothing, also if its writer is killed
  bool rivals = false;         ///< two trainers may write the rows of one rank at once
  bool has_peer = false;       ///< on a network, by which calls can be held up
  unsigned programs = 20;      ///< random ones that are tried: fewer where each takes long
  std::string absent{};        ///< why it cannot be tested on this machine; empty: it can
};

/// Each kind adds itself: `const bool added = add_sink_fixture({...});`
bool add_sink_fixture(SinkFixture fixture);
[[nodiscard]] const std::vector<SinkFixture>& sink_fixtures();

using FixtureBody = std::function<void(const SinkFixture&)>;
/// Runs the body on every kind for which `needed` holds, in a section of its own.
void over_every_sink(const FixtureBody& body);
void over_sinks(bool SinkFixture::*needed, const FixtureBody& body);

using RowKey = std::pair<std::uint32_t, std::int64_t>;  ///< table, row
struct RowValue {
  Version version;
  std::vector<float> weights, state;
  friend bool operator==(const RowValue&, const RowValue&) = default;
};
using Rows = std::map<RowKey, RowValue>;

/// All rows of a sink; each is there once.
[[nodiscard]] Rows rows_of(Sink& sink);
/// The first difference in words; empty: there is none.
[[nodiscard]] std::string difference(const Rows& found, const Rows& expected);
/// What a sink that was given these batches is to have: the newest of each row.
void fold(Rows& rows, const StepBatch& batch);

/// Writes a batch that may be there already. A sink may refuse one of an epoch that a later one has
/// overtaken, and keeps what it has then.
void write_again(Sink& sink, const StepBatch& batch);

/// What a call threw; nothing: it did what it does.
template <typename Call>
[[nodiscard]] std::optional<SinkError::Kind> refusal_of(Call&& call) {
  try {
    call();
  } catch (const SinkError& error) {
    return error.kind();
  }
  return std::nullopt;
}

/// A schema with tables of different widths, and rows beyond 2^31.
[[nodiscard]] StreamSchema some_schema(RowContent content = RowContent::weights,
                                       unsigned tables = 3);
/// Adds a row whose numbers follow from its key and version.
void add_row(StepBatch& batch, const StreamSchema& schema, RowKey key, Version version);

/// Random batches of several ranks, each rank's in a chain.
class StreamProgram {
 public:
  StreamProgram(std::uint64_t seed, unsigned ranks);

  [[nodiscard]] const StreamSchema& schema() const noexcept { return schema_; }
  [[nodiscard]] unsigned ranks() const noexcept { return static_cast<unsigned>(newest_.size()); }
  /// The rank's next step. Rows have versions up to the commit's: old ones are told late as well.
  [[nodiscard]] StepBatch next(std::uint32_t rank);
  [[nodiscard]] std::size_t below(std::size_t bound);

 private:
  [[nodiscard]] RowKey some_key();

  std::mt19937_64 random_;
  StreamSchema schema_;
  std::vector<Version> newest_;  ///< of each rank
  std::vector<RowKey> seen_;     ///< so that rows come again
};

}  // namespace millrace::test
