#include "millrace/observe/trace/stacks.hpp"

namespace millrace::trace {

StackTable::FrameId StackTable::frame(const StackFrame& frame) {
  const auto [known, fresh] = known_frames_.try_emplace({frame.file, frame.function, frame.line},
                                                        static_cast<FrameId>(frames_.size()));
  if (fresh) frames_.push_back(frame);
  return known->second;
}

StackTable::Id StackTable::push(Id outer, FrameId inner) {
  const std::uint64_t key = std::uint64_t{outer} << 32 | inner;
  const auto [known, fresh] = known_stacks_.try_emplace(key, static_cast<Id>(nodes_.size() + 1));
  if (fresh) nodes_.push_back({outer, inner});
  return known->second;
}

std::vector<StackTable::FrameId> StackTable::frames_of(Id stack) const {
  std::vector<FrameId> frames;
  for (; stack != kNone; stack = outer(stack)) frames.push_back(innermost(stack));
  return frames;
}

StackTable::Id StackCopy::of(StackTable::Id stack) {
  std::vector<StackTable::Id> missing;  // the innermost first
  StackTable::Id copied = StackTable::kNone;
  for (; stack != StackTable::kNone; stack = from_.outer(stack)) {
    const auto known = stacks_.find(stack);
    if (known != stacks_.end()) {
      copied = known->second;
      break;
    }
    missing.push_back(stack);
  }
  for (auto next = missing.rbegin(); next != missing.rend(); ++next) {
    const auto [frame, fresh] = frames_.try_emplace(from_.innermost(*next), 0U);
    if (fresh) frame->second = to_.frame(from_.at(frame->first));
    copied = to_.push(copied, frame->second);
    stacks_.emplace(*next, copied);
  }
  return copied;
}

LabelTable::Id LabelTable::add(std::string_view text) {
  if (text.empty()) return kNone;
  const auto known = known_.find(text);
  if (known != known_.end()) return known->second;
  const auto id = static_cast<Id>(texts_.size());
  texts_.emplace_back(text);
  known_.emplace(text, id);
  return id;
}

}  // namespace millrace::trace
