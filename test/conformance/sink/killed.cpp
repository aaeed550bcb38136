// Writers that are killed at any instant. A writer is this program in another process.
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "test/conformance/sink/sink_conformance.hpp"
#include "test/support/child_process.hpp"
#include "test/support/seed.hpp"
#include "test/support/temporary_folder.hpp"

namespace millrace::test {
namespace {

constexpr const char* kSink = "MILLRACE_TEST_SINK";
constexpr const char* kProgram = "MILLRACE_TEST_PROGRAM";
constexpr std::size_t kBatches = 20'000;  ///< more than a writer writes before it is killed
constexpr unsigned kRanks = 2;

/// Generates the same batches in each process.
class Batches {
 public:
  explicit Batches(std::uint64_t drawn_from) : program_(drawn_from, kRanks) {}

  [[nodiscard]] const StreamSchema& schema() const { return program_.schema(); }
  [[nodiscard]] StepBatch next() {
    return program_.next(static_cast<std::uint32_t>(program_.below(kRanks)));
  }

 private:
  StreamProgram program_;
};

/// Starts a writer from the first batch, so that batches that the sink has are repeats. Kills it.
/// @returns number of batches that were surely written
std::size_t write_and_kill(const std::string& log, std::mt19937_64& random, std::size_t least) {
  ChildProcess writer{"/proc/self/exe", {"writer", "[writer]"}, log, true};
  std::size_t written = 0;
  const std::size_t enough = least + 1 + random() % 40;
  while (written < enough) {
    const auto line = writer.line();
    INFO("what it said is in " << log);
    REQUIRE(line);
    if (line->starts_with("written ")) written = std::stoull(line->substr(8));
  }
  std::this_thread::sleep_for(std::chrono::microseconds{random() % 3000});
  writer.kill();
  return written;
}

/// Checks that a sink has `written` batches or more. Without whole steps, it may have parts of the
/// later ones.
void check_written(Sink& sink, std::uint64_t drawn_from, std::size_t written, bool whole_steps) {
  const auto commits = sink.state().commits;
  Batches batches{drawn_from};
  Rows expected;
  for (std::size_t i = 0; i < kBatches; ++i) {
    const StepBatch batch = batches.next();
    const auto commit = commits.find(batch.commit.rank);
    const bool is_observed =
        commit != commits.end() && batch.commit.version <= commit->second.version;
    if (i < written) REQUIRE(is_observed);
    if (is_observed) fold(expected, batch);
    if (i > written + 1000) break;
  }
  const Rows rows = rows_of(sink);
  if (whole_steps) {
    REQUIRE(difference(rows, expected) == "");
    return;
  }
  for (const auto& [key, value] : expected) REQUIRE(rows.at(key).version >= value.version);
}

}  // namespace

TEST_CASE("a writer of sinks that another test starts and kills", "[.writer]") {
  const char* const spec = ::getenv(kSink);
  const char* const drawn_from = ::getenv(kProgram);
  if (spec == nullptr || drawn_from == nullptr) SKIP("it is started by another test");
  Batches batches{std::stoull(drawn_from)};
  const auto sink = open_sink(spec);
  sink->begin(batches.schema());
  for (std::size_t i = 0; i < kBatches; ++i) {
    write_again(*sink, batches.next());
    const std::string line = "\nwritten " + std::to_string(i + 1) + "\n";
    if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) return;
    if (i % 16 == 15) sink->flush();
  }
  FAIL("nobody killed it");
}

TEST_CASE("a writer killed at any instant leaves all that it wrote, and the next one continues",
          "[sink]") {
  over_every_sink([](const SinkFixture& fixture) {
    const auto place = fixture.make_place();
    if (place->spec().empty()) {
      SUCCEED("a kind that no other process can write to");
      return;
    }
    const TemporaryFolder folder;
    const std::string log = (folder.path() / "log").string();
    const std::uint64_t drawn_from = seed() + 17;
    ::setenv(kSink, place->spec().c_str(), 1);
    ::setenv(kProgram, std::to_string(drawn_from).c_str(), 1);
    std::mt19937_64 random{drawn_from};
    std::size_t written = 0;
    for (int kill = 0; kill < 10; ++kill) {
      CAPTURE(kill);
      written = std::max(written, write_and_kill(log, random, written));
      check_written(*place->open(), drawn_from, written, fixture.whole_steps);
    }
  });
}

}  // namespace millrace::test
