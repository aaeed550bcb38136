#include "train/stream_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdint>
#include <stdexcept>

#include "cli/choices.hpp"
#include "cli/error.hpp"
#include "cli/values.hpp"
#include "cli/without_effect.hpp"
#include "millrace/streamer/sink_kinds.hpp"

namespace millrace::cli {
namespace {

constexpr std::uint64_t kMostSlots = 64;
constexpr std::size_t kMostBytes = std::size_t{1} << 40;
constexpr double kLongestDeadline = 86400;

void read_capture(const StreamArguments& given, CaptureOptions& capture) {
  if (given.capture) {
    capture.mode = read_choice("--stream-capture", "capture mode", *given.capture, kCaptureModes);
  }
  if (given.content) {
    capture.content = read_choice("--stream-content", "row content", *given.content, kRowContents);
  }
  refuse_without_effect("--stream-slots", given.slots && capture.mode == CaptureMode::mapped,
                        "mapped has one slot", "another --stream-capture");
  if (given.slots) capture.slots = read_whole("--stream-slots", *given.slots, 1, kMostSlots);
  if (given.slot_bytes) {
    capture.slot_bytes = read_bytes("--stream-slot-bytes", *given.slot_bytes, kMostBytes);
  }
  if (given.when_full) {
    capture.when_full =
        read_choice("--stream-when-full", "policy for full slots", *given.when_full, kWhenFull);
  }
  if (given.gather) {
    capture.gather_on =
        read_choice("--stream-gather", "place of the gather", *given.gather, kGatherOn);
  }
  capture.skipped_tables = given.skipped_tables;
}

/** Refuses all other stream options, because they have no effect without --stream. */
void refuse_all(const StreamArguments& given) {
  const auto refuse = [](std::string_view option, bool set) {
    refuse_without_effect(option, set, "no rows are streamed", "--stream SINK as well");
  };
  refuse("--stream-skip", !given.skipped_tables.empty());
  refuse("--stream-capture", given.capture.has_value());
  refuse("--stream-content", given.content.has_value());
  refuse("--stream-slots", given.slots.has_value());
  refuse("--stream-slot-bytes", given.slot_bytes.has_value());
  refuse("--stream-when-full", given.when_full.has_value());
  refuse("--stream-gather", given.gather.has_value());
  refuse("--stream-queue-bytes", given.queue_bytes.has_value());
  refuse("--stream-queue-policy", given.queue_policy.has_value());
  refuse("--stream-deadline", given.deadline.has_value());
}

}  // namespace

StreamOptions read_stream(const StreamArguments& given) {
  StreamOptions options{.sinks = given.sinks};
  if (given.sinks.empty()) refuse_all(given);
  read_capture(given, options.streaming.capture);
  ShippingOptions& shipping = options.streaming.shipping;
  if (given.queue_bytes) {
    shipping.queue_bytes = read_bytes("--stream-queue-bytes", *given.queue_bytes, kMostBytes);
  }
  if (given.queue_policy) {
    shipping.when_full =
        read_choice("--stream-queue-policy", "queue policy", *given.queue_policy, kQueuePolicies);
  }
  if (given.deadline) {
    const double seconds = read_number("--stream-deadline", *given.deadline, 0, kLongestDeadline);
    options.deadline =
        std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>{seconds});
  }
  // Refuses invalid addresses before any work begins. `millrace train` opens the sinks later.
  static_cast<void>(open_sinks(options));
  return options;
}

std::string to_string(const StreamOptions& options) {
  if (options.sinks.empty()) return "no stream";
  const CaptureOptions& capture = options.streaming.capture;
  return fmt::format("{} to {}, without {}", to_string(capture.content),
                     fmt::join(options.sinks, ", "), fmt::join(capture.skipped_tables, ", "));
}

std::vector<std::shared_ptr<Sink>> open_sinks(const StreamOptions& options) {
  std::vector<std::shared_ptr<Sink>> sinks;
  for (const std::string& spec : options.sinks) {
    try {
      sinks.push_back(open_sink(spec));
    } catch (const std::invalid_argument& error) {
      throw UsageError{error.what(), "--stream", sink_addresses()};
    }
  }
  return sinks;
}

}  // namespace millrace::cli
