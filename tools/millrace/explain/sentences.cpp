#include "explain/sentences.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "explain/words.hpp"
#include "millrace/memory/byte_size.hpp"
#include "millrace/observe/explain_difference.hpp"

namespace millrace::cli {
namespace {

/** Sentences about why a request failed. */
class FailureWords {
 public:
  FailureWords(const ExplainedFile& file, const FailedRequest& failed)
      : file_(file), failed_(failed), streams_(stream_names(file.explanation, false)) {}

  [[nodiscard]] std::string what() const {
    std::string text =
        fmt::format("out of memory at {}: a request of {} {}", event_name(file_.log, failed_.event),
                    format_bytes(failed_.bytes),
                    on_stream(file_.explanation, streams_, failed_.memory.asker.stream));
    if (failed_.memory.reserved) {
      text += fmt::format(", with {} reserved for {} live", format_bytes(*failed_.memory.reserved),
                          format_bytes(live()));
    }
    if (failed_.device_free) {
      text += fmt::format(" and {}{} free on the device", failed_.device_is_whole ? "at most " : "",
                          format_bytes(*failed_.device_free));
    }
    return text;
  }

  [[nodiscard]] std::string why() const {
    switch (failed_.reason) {
      case FailureReason::beyond_device:
        return fmt::format("it is larger than all memory that this process could have, {}",
                           format_bytes(all()));
      case FailureReason::live:
        return fmt::format("what is live leaves {} of {}, so no allocator can serve it",
                           format_bytes(all() - live()), format_bytes(all()));
      case FailureReason::unused:
        return fmt::format("not fragmentation: {} is free for it{}", range(failed_.own),
                           since(failed_.own));
      case FailureReason::waiting:
        return fmt::format(
            "{} is freed{}, but its uses on other streams are not known to be "
            "complete",
            range(failed_.waiting), since(failed_.waiting));
      case FailureReason::stream:
        return fmt::format(
            "{} is free{}, but it belongs to the {}, and only that stream may use it",
            range(failed_.other), since(failed_.other), streams_[failed_.other->stream]);
      case FailureReason::pool:
        return fmt::format("{} is free{}, but in a pool of a CUDA graph or MemPool",
                           range(failed_.pool), since(failed_.pool));
      case FailureReason::hard:
        return fmt::format("fragmentation: {} is free for it in segments, in ranges of at most {}",
                           format_bytes(failed_.memory.bytes(MemoryPart::hard) +
                                        failed_.memory.bytes(MemoryPart::soft)),
                           format_bytes(failed_.own ? failed_.own->bytes : 0));
      case FailureReason::scattered:
        return "enough is free only over all streams and pools together, in smaller ranges";
      case FailureReason::outside:
        return "all that this process has free is not enough; the rest of the device is used "
               "outside of this allocator";
      case FailureReason::unknown:
        break;
    }
    if (failed_.memory.reserved && failed_.device_is_whole) {
      return "not known; what is free in this process is not enough, and the log does not show "
             "what "
             "the device had free beside it";
    }
    return "not known; the log does not show what was reserved and what the device had free";
  }

  [[nodiscard]] std::string fits() const {
    if (!failed_.would_fit) return "not known";
    if (*failed_.would_fit == 0) return "no large request";
    return "at least " + format_bytes(*failed_.would_fit);
  }

 private:
  [[nodiscard]] std::uint64_t live() const { return failed_.memory.bytes(MemoryPart::live); }
  [[nodiscard]] std::uint64_t all() const {
    return failed_.memory.reserved.value_or(0) + failed_.device_free.value_or(0);
  }
  [[nodiscard]] static std::string range(const std::optional<FreeRange>& range) {
    return "a range of " + format_bytes(range->bytes);
  }
  [[nodiscard]] std::string since(const std::optional<FreeRange>& range) const {
    return range->freed ? " since " + event_name(file_.log, range->freed) : "";
  }

  const ExplainedFile& file_;
  const FailedRequest& failed_;
  const std::vector<std::string> streams_;
};

std::string headline(const ExplainedDevice& device) {
  const MemoryMoment& peak = device.memory.peak;
  const std::uint64_t live = peak.bytes(MemoryPart::live);
  if (!peak.reserved) {
    return fmt::format("{}: at the peak {} live; what was reserved is not in this log", device.name,
                       format_bytes(live));
  }
  return fmt::format("{}: at the peak {} reserved for {} live, {}", device.name,
                     format_bytes(*peak.reserved), format_bytes(live),
                     share_of(live, *peak.reserved));
}

std::string site_of(const Explanation& explanation, trace::StackTable::Id stack) {
  const auto site = std::ranges::find(explanation.sites, stack, &ExplainedSite::stack);
  constexpr std::size_t longest = 60;
  return site == explanation.sites.end() ? "an unknown place" : shortened(site->name, longest);
}

std::string moment(const ExplainedFile& file, const MemoryMoment& peak) {
  const MemoryAsker& asker = peak.asker;
  const std::string stream =
      on_stream(file.explanation, stream_names(file.explanation, false), asker.stream);
  std::string text = "at " + event_name(file.log, peak.event);
  if (asker.requests) {
    text += fmt::format(", by a request of {} {}", format_bytes(asker.bytes), stream);
    if (asker.stack != trace::StackTable::kNone) {
      text += " in " + site_of(file.explanation, asker.stack);
    }
  } else if (peak.reserved) {
    text +=
        fmt::format("; it did not grow within the log, and is explained for a request {}", stream);
  }
  if (peak.elsewhere != 0) {
    text += fmt::format("; {} live are in no segment of the log", format_bytes(peak.elsewhere));
  }
  if (peak.unplaced != 0) {
    text += fmt::format("; {} are in the driver's pool, whose addresses are not recorded",
                        format_bytes(peak.unplaced));
  }
  return text;
}

std::string amount(const Advice& advice) {
  return (advice.at_most ? "at most " : "") + format_bytes(advice.saves);
}

/** "saves most: 2.00 GiB", "serves what failed". */
std::string gain(const Advice& advice) {
  return advice.serves ? "serves what failed" : "saves most: " + amount(advice);
}

/** Why the device has no advice. */
std::string without_advice(const ExplainedDevice& device) {
  if (device.memory.peak.reserved) {
    return device.rows.empty()
               ? "saves most: not known; nothing was replayed"
               : "saves most: no change that was replayed saves 1% of what was reserved";
  }
  const std::string unknown = "saves most: not known; the log does not have what was reserved";
  const WhatIfRow* least = nullptr;
  for (const WhatIfRow& row : device.rows) {
    if (row.reserved && (least == nullptr || *row.reserved < *least->reserved)) least = &row;
  }
  if (least == nullptr) return unknown;
  return fmt::format("{}. Of the replays, \"{}\" reserves least, {}", unknown, least->name(),
                     format_bytes(*least->reserved));
}

/** How the replay of PyTorch's decisions differs from the recording; "" if it does not differ. */
std::string difference_of_replay(const ExplainedFile& file, const ExplainedDevice& device) {
  const WhatIfRow* const torch = device.find("torch", ProgramChange::none);
  const auto recorded = device.memory.peak.reserved;
  if (torch == nullptr || !recorded || !is_of_torch(file, device)) return "";
  constexpr std::uint64_t kOnePercent = 100;
  const std::uint64_t replayed = *torch->reserved;
  if (replayed > *recorded && replayed - *recorded > *recorded / kOnePercent) {
    return fmt::format(
        "note: \"torch\" is a replay{}, and reserves {} more than was recorded; the other rows may "
        "be too high, too. Savings are compared with what was recorded",
        uses_expandable_segments(file.log) && !file.log.snapshot->settings.expandable_segments
            ? " without expandable segments"
            : "",
        format_bytes(replayed - *recorded));
  }
  if (replayed<*recorded&& * recorded - replayed> * recorded / kOnePercent) {
    return fmt::format(
        "note: {} of what was recorded is cache that \"torch\", a replay of the log's requests, "
        "does not need. Savings are compared with \"torch\", as all rows start without it",
        format_bytes(*recorded - replayed));
  }
  return "";
}

}  // namespace

std::vector<std::string> failure_sentences(const ExplainedFile& file,
                                           const DeviceExplanation& device) {
  if (!device.failure) return {};
  const FailureWords words{file, *device.failure};
  std::vector<std::string> sentences{words.what(), "why: " + words.why(),
                                     "what would have fitted: " + words.fits()};
  if (device.failures > 1) {
    sentences.front() += fmt::format(" (the last of {} failures)", device.failures);
  }
  return sentences;
}

std::string served_sentence(const ExplainedDevice& device) {
  bool was_tried = false;
  std::vector<std::string> names;
  for (const WhatIfRow& row : device.rows) {
    if (!row.serves_failed) continue;
    was_tried = true;
    if (*row.serves_failed) names.push_back(fmt::format("\"{}\"", row.name()));
  }
  if (!was_tried) return "";
  return fmt::format("replays that serve it: {}",
                     names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

std::vector<std::string> peak_sentences(const ExplainedFile& file, const ExplainedDevice& device) {
  return {headline(device), moment(file, device.memory.peak)};
}

std::vector<std::string> advice_sentences(const ExplainedFile& file, const ExplainedDevice& device,
                                          bool all) {
  std::vector<std::string> sentences;
  if (device.advice.empty()) {
    sentences.push_back(without_advice(device));
  } else {
    const Advice& best = device.advice.front();
    const std::string row = best.row.empty() ? "" : fmt::format(" (\"{}\")", best.row);
    sentences = {fmt::format("{}{}: {}", gain(best), row, best.change), "its cost: " + best.cost};
    for (std::size_t i = 1; i < device.advice.size(); ++i) {
      const Advice& other = device.advice[i];
      const bool may_save_more = other.at_most && other.saves > best.saves;
      if (!all && !may_save_more) continue;
      sentences.push_back(fmt::format("{}: {}: {}; {}", may_save_more ? "may save more" : "also",
                                      other.serves ? "serves what failed" : amount(other),
                                      other.change, other.cost));
    }
  }
  const std::string note = difference_of_replay(file, device);
  if (!note.empty()) sentences.push_back(note);
  return sentences;
}

}  // namespace millrace::cli
