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

/// The place to which sinks of one kind write. It is empty at first and is removed with this
/// object.
class SinkPlace {
 public:
  SinkPlace() = default;
  virtual ~SinkPlace() = default;
  SinkPlace(const SinkPlace&) = delete;
  SinkPlace& operator=(const SinkPlace&) = delete;

  /// Opens a sink for this place, as a process that starts does.
  [[nodiscard]] virtual std::unique_ptr<Sink> open() = 0;
  /// Returns a source that reads the batches in order, or null if the kind has none.
  [[nodiscard]] virtual std::unique_ptr<RecordSource> source() { return nullptr; }
  /// Returns the address for open_sink in another process; empty if no other process can write.
  [[nodiscard]] virtual std::string spec() const { return {}; }
  /// Only for kinds with a peer: the peer then accepts connections and bytes, and answers nothing
  /// until `speak`.
  virtual void fall_silent() {}
  virtual void speak() {}
};

/// A kind of sink. An optional ability is a property here. Laws that need it skip kinds without it.
struct SinkFixture {
  std::string name;
  std::function<std::unique_ptr<SinkPlace>()> make_place;
  bool lasts = true;           ///< flushed data outlives the sink, and other sinks see it
  bool many_at_once = true;    ///< several sinks may write to a place at once, each its own ranks
  bool keeps_position = true;  ///< the applier's position
  bool is_source = false;      ///< its places have a source
  bool whole_steps = false;    ///< has all of a batch or nothing, even if its writer is killed
  bool rivals = false;         ///< two trainers may write the rows of one rank at once
  bool has_peer = false;       ///< a peer on a network, which can delay calls
  unsigned programs = 20;      ///< number of random programs; fewer where each takes long
  std::string absent{};        ///< why it cannot be tested on this machine; empty if it can
};

/// Each kind adds itself: `const bool added = add_sink_fixture({...});`
bool add_sink_fixture(SinkFixture fixture);
[[nodiscard]] const std::vector<SinkFixture>& sink_fixtures();

using FixtureBody = std::function<void(const SinkFixture&)>;
/// Runs the body on every kind (for which `needed` holds), each in its own section.
void over_every_sink(const FixtureBody& body);
void over_sinks(bool SinkFixture::*needed, const FixtureBody& body);

using RowKey = std::pair<std::uint32_t, std::int64_t>;  ///< table, row
struct RowValue {
  Version version;
  std::vector<float> weights, state;
  friend bool operator==(const RowValue&, const RowValue&) = default;
};
using Rows = std::map<RowKey, RowValue>;

/// Returns all rows of a sink. Throws if a row occurs twice.
[[nodiscard]] Rows rows_of(Sink& sink);
/// Describes the first difference; empty if there is none.
[[nodiscard]] std::string difference(const Rows& found, const Rows& expected);
/// Adds a batch to the rows that a sink must have: the newest version of each row.
void fold(Rows& rows, const StepBatch& batch);

/// Writes a batch that the sink may have already. A sink may refuse a batch of an epoch that a
/// later epoch has overtaken. It then keeps its content.
void write_again(Sink& sink, const StepBatch& batch);

/// Returns the kind of the SinkError that a call throws, or nothing if it succeeds.
template <typename Call>
[[nodiscard]] std::optional<SinkError::Kind> refusal_of(Call&& call) {
  try {
    call();
  } catch (const SinkError& error) {
    return error.kind();
  }
  return std::nullopt;
}

/// Returns a schema with tables of different widths and rows beyond 2^31.
[[nodiscard]] StreamSchema some_schema(RowContent content = RowContent::weights,
                                       unsigned tables = 3);
/// Adds a row whose numbers follow from its key and version.
void add_row(StepBatch& batch, const StreamSchema& schema, RowKey key, Version version);

/// Random batches of several ranks. The batches of a rank form a chain.
class StreamProgram {
 public:
  StreamProgram(std::uint64_t seed, unsigned ranks);

  [[nodiscard]] const StreamSchema& schema() const noexcept { return schema_; }
  [[nodiscard]] unsigned ranks() const noexcept { return static_cast<unsigned>(newest_.size()); }
  /// Returns the rank's next step. Rows have versions up to the commit's: old ones may come late.
  [[nodiscard]] StepBatch next(std::uint32_t rank);
  [[nodiscard]] std::size_t below(std::size_t bound);

 private:
  [[nodiscard]] RowKey some_key();

  std::mt19937_64 random_;
  StreamSchema schema_;
  std::vector<Version> newest_;  ///< newest version of each rank
  std::vector<RowKey> seen_;     ///< keys so far, so that rows occur again
};

}  // namespace millrace::test
