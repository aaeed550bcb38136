#include "stream/json.hpp"

#include <nlohmann/json.hpp>

#include "millrace/text/units.hpp"

namespace millrace::cli {
namespace {

using Json = nlohmann::ordered_json;

Json document_of(Version version) { return {{"epoch", version.epoch}, {"step", version.step}}; }

}  // namespace

Json to_document(const CaptureCounts& counts) {
  return {{"steps", counts.steps},
          {"rows", counts.rows},
          {"changed_bytes", counts.changed_bytes},
          {"link_bytes", counts.link_bytes},
          {"copied_bytes", counts.copied_bytes},
          {"copying_ms", in_milliseconds(counts.copying)},
          {"captures", counts.captures},
          {"dirty_captures", counts.dirty_captures},
          {"overflowed_rows", counts.overflowed_rows},
          {"dropped_steps", counts.dropped_steps},
          {"dropped_rows", counts.dropped_rows},
          {"returned_rows", counts.returned_rows},
          {"skipped_rows", counts.skipped_rows},
          {"failures", counts.failures},
          {"everything_marked", counts.everything_marked},
          {"waits", counts.waits},
          {"waited_ms", in_milliseconds(counts.waited)}};
}

Json to_document(const ShippingReport& sink) {
  return {{"sink", sink.sink},
          {"given_up", sink.given_up.empty() ? Json() : Json(sink.given_up)},
          {"last_error", sink.last_error.empty() ? Json() : Json(sink.last_error)},
          {"offered", document_of(sink.offered)},
          {"delivered", document_of(sink.delivered)},
          {"steps", sink.steps},
          {"rows", sink.rows},
          {"bytes", sink.bytes},
          {"coalesced_rows", sink.coalesced_rows},
          {"recaptured_rows", sink.recaptured_rows},
          {"retries", sink.retries},
          {"snapshots", sink.snapshots},
          {"absent_rows", sink.absent_rows},
          {"unchecked", sink.unchecked.empty() ? Json() : Json(sink.unchecked)},
          {"undelivered_steps", sink.undelivered_steps},
          {"undelivered_rows", sink.undelivered_rows},
          {"missing_rows", sink.missing},
          {"most_queue_bytes", sink.most_queue_bytes},
          {"lag_ms",
           {{"p50", in_milliseconds(sink.lag_p50)},
            {"p99", in_milliseconds(sink.lag_p99)},
            {"longest", in_milliseconds(sink.lag_most)}}}};
}

Json to_document(const StreamingReport& report) {
  Json captured = Json::array(), sinks = Json::array();
  for (const CaptureCounts& counts : report.captured) captured.push_back(to_document(counts));
  for (const ShippingReport& sink : report.sinks) sinks.push_back(to_document(sink));
  return {{"epoch", report.epoch},
          {"complete", report.complete()},
          {"captured", std::move(captured)},
          {"sinks", std::move(sinks)}};
}

}  // namespace millrace::cli
