#include "ordering/race_message.hpp"

#include <fmt/format.h>

namespace millrace::ordering {
namespace {

std::string describe(const Label& label) {
  switch (label.kind) {
    case Label::Kind::stream:
      return "stream " + label.name;
    case Label::Kind::callback:
      return fmt::format("callback {} on stream {}", label.name, label.stream);
    default:
      return "thread " + label.name;
  }
}

// Formats the first half of an edge: where it begins, on the device or on the host.
std::string record_after(const Op& op) {
  return op.label->kind == Label::Kind::callback
             ? fmt::format("record on {} after callback {}", op.label->stream, op.label->name)
             : fmt::format("record on {} after op {}", op.label->name, op.index);
}

std::string wait_before(const Label& label, RaceChecker::OpIndex index) {
  switch (label.kind) {
    case Label::Kind::stream:
      return fmt::format("wait on {} before op {}", label.name, index);
    case Label::Kind::callback:
      return fmt::format("wait on {} before callback {}", label.stream, label.name);
    default:
      return fmt::format("synchronize thread {} with it before op {}", label.name, index);
  }
}

std::string synchronize_threads(const Label& first, RaceChecker::OpIndex after, const Label& second,
                                const std::string& before) {
  return fmt::format("synchronize {} with {} after op {} and before {}", describe(second),
                     describe(first), after, before);
}

std::string edge(const Op& first, const Label& second, const Label& second_thread,
                 RaceChecker::OpIndex index) {
  if (first.label->kind != Label::Kind::thread) {
    return record_after(first) + ", " + wait_before(second, index);
  }
  if (second.kind == Label::Kind::stream) {
    return synchronize_threads(*first.label, first.index, second_thread,
                               fmt::format("enqueuing op {}", index));
  }
  return synchronize_threads(*first.label, first.index, second, fmt::format("op {}", index));
}

}  // namespace

std::string describe(const Op& op) {
  return fmt::format("{} (op {}, {})", op.name, op.index, describe(*op.label));
}

std::string missing_edge(const Op& first, const Op& second) {
  return edge(first, *second.label, *second.thread_label, second.index);
}

std::string conflict_message(const Op& first, const Op& second) {
  return fmt::format("{} and {} are not ordered: {}", describe(first), describe(second),
                     missing_edge(first, second));
}

std::string early_reuse_message(const Op& first, const Op& allocation, const Label& user) {
  return fmt::format("{} is not before {}, which gives its memory to {}: {}", describe(first),
                     describe(allocation), describe(user),
                     edge(first, user, *allocation.thread_label, allocation.index));
}

std::string use_after_free_message(const Op& free, const Op& use) {
  return fmt::format("{} uses memory that {} had given back: free it after op {}", describe(use),
                     describe(free), use.index);
}

std::string use_beside_free_message(const Op& use, const Op& free) {
  return fmt::format("{} gives back memory while {} may still have to be enqueued: {}",
                     describe(free), describe(use),
                     synchronize_threads(*use.thread_label, use.index, *free.thread_label,
                                         fmt::format("op {}", free.index)));
}

std::string use_before_allocate_message(const Op& allocation, const Op& use) {
  const bool in_stream_order = allocation.label->kind == Label::Kind::stream;
  return fmt::format(
      "{} is not after {}, which made its memory: {}", describe(use), describe(allocation),
      in_stream_order ? missing_edge(allocation, use)
                      : synchronize_threads(*allocation.label, allocation.index, *use.thread_label,
                                            fmt::format("op {}", use.index)));
}

}  // namespace millrace::ordering
