#include "ship/sink_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace millrace::ship {

bool SinkWriter::begin() {
  const StreamBeginning& beginning = environment_.beginning;
  Retrier& retrier = environment_.retrier;
  Sink& sink = environment_.sink;
  const SinkState there = retrier.insist([&] { return sink.state(); });
  if (there.newest_epoch() > beginning.epoch) {
    throw SinkError{SinkError::Kind::wrong,
                    fmt::format("the sink has epoch {}, and this trainer has epoch {}: a later "
                                "trainer writes to it, or this host's clock is behind the clock of "
                                "the last one",
                                there.newest_epoch(), beginning.epoch)};
  }
  retrier.insist([&] { sink.begin(beginning.schema); });
  const auto commit = there.commits.find(beginning.rank);
  if (commit != there.commits.end()) {
    after_ = commit->second.version;
    answered_ = commit->second.answers;
  }
  const bool requested = snapshot_requested();
  return !requested && goes_on(there, beginning) && keeps_all();
}

SinkWriter::Recaptured SinkWriter::recapture_outdated(Recapture& recapture) {
  const StreamBeginning& beginning = environment_.beginning;
  Recaptured recaptured;
  PresentRows present{beginning.schema};
  const auto again = [&](const StepBatch& rows) {
    recaptured.rows += rows.size();
    recaptured.ticket = std::max(recaptured.ticket, recapture.recapture(rows));
  };
  environment_.retrier.insist([&] {
    // After an error the call is repeated, so the count starts again.
    recaptured.rows = 0;
    RowBatches beyond{again};
    environment_.sink.read([&](const RowRecord& row) {
      if (environment_.lifecycle.out_of_time()) throw OutOfTime{};
      present.add(row.table, row.row);
      // Steps outside the lineage: they came after the checkpoint that this training was loaded
      // from, and were discarded.
      if (!beginning.lineage.contains(row.version)) beyond.add(row.table, row.row, row.version);
    });
    beyond.finish();
  });
  present.visit_absent(again);
  return recaptured;
}

bool SinkWriter::write(StepBatch& batch) {
  batch.commit.after = after_;
  batch.commit.answers = answered_;
  batch.commit.base = environment_.beginning.lineage.last();
  try {
    environment_.retrier.insist([&] { environment_.sink.write(batch); });
  } catch (const SinkError& error) {
    if (error.kind() != SinkError::Kind::lost) throw;
    environment_.retrier.failed(error.what());
    return false;
  }
  after_ = batch.commit.version;
  unflushed_ = true;
  return true;
}

// A failed flush may have removed rows that were written before it.
bool SinkWriter::flush() {
  bool kept = true;
  if (unflushed_) {
    const std::uint64_t before = environment_.retrier.failures();
    environment_.retrier.insist([&] { environment_.sink.flush(); });
    const bool failed = environment_.retrier.failures() != before;
    kept = (!failed || has_newest_commit()) && keeps_all();
  }
  unflushed_ = false;
  flushed_ = environment_.executor.now();
  return kept;
}

bool SinkWriter::has_newest_commit() {
  const SinkState there = environment_.retrier.insist([&] { return environment_.sink.state(); });
  const auto commit = there.commits.find(environment_.beginning.rank);
  return commit != there.commits.end() && commit->second.version == after_;
}

bool SinkWriter::snapshot_requested() {
  try {
    const std::uint64_t request = environment_.sink.snapshot_request();
    // Each request is answered once; commits contain the answered request.
    return request != 0 && request != std::exchange(answered_, request);
  } catch (const SinkError& error) {  // asked again after the next step
    environment_.retrier.failed(error.what());
    return false;
  }
}

bool SinkWriter::keeps_all() {
  const StreamBeginning& beginning = environment_.beginning;
  try {
    environment_.retrier.insist([&] { environment_.sink.audit(beginning.rank, beginning.epoch); });
    return true;
  } catch (const SinkError& error) {
    if (error.kind() != SinkError::Kind::lost) throw;
    environment_.retrier.failed(error.what());
    return false;
  }
}

SinkWriter::Listed SinkWriter::list(PresentRows& present) {
  struct Closed {};
  try {
    const bool listed = environment_.retrier.insist([&] {
      return environment_.sink.list_rows([&](std::uint32_t table, std::int64_t row) {
        // A list of all rows can take longer than the remaining time of the run.
        if (environment_.lifecycle.closing()) throw Closed{};
        present.add(table, row);
      });
    });
    return listed ? Listed::all : Listed::impossible;
  } catch (const Closed&) {
    return Listed::no_time;
  }
}

}  // namespace millrace::ship
