#include "observe/trace/torch/stack_reader.hpp"

namespace millrace::trace {

namespace {

constexpr std::uint64_t kBytesOfStack = 96;  // a node, and its entries in two tables
constexpr std::uint64_t kBytesOfText = 192;  // a short text, and its entries in two tables

bool is_list(const Field& field) { return field.is(ValueKind::list) || field.is(ValueKind::tuple); }

/** The value of a key whose type may be anything. */
std::optional<std::string_view> text_at(const Field& record, std::string_view key) {
  const auto field = record.find(key);
  if (!field || !field->is(ValueKind::string)) return std::nullopt;
  return field->text();
}

}  // namespace

StackTable::Id StackReader::stack_of(const Field& record) {
  const auto frames = record.find("frames");
  if (!frames) return StackTable::kNone;
  if (is_list(*frames)) {
    if (frames->size() == 0) return StackTable::kNone;
    const auto known = known_stacks_.find(frames->value().identity());
    if (known != known_stacks_.end()) return known->second;
  }
  const auto stack = read_stack(*frames);
  if (!stack) warnings_.add("a stack is not as PyTorch writes it and is left out", "frames");
  return stack.value_or(StackTable::kNone);
}

std::optional<StackTable::Id> StackReader::read_stack(const Field& frames) {
  if (!is_list(frames)) return std::nullopt;
  StackTable::Id stack = StackTable::kNone;
  for (std::size_t i = frames.size(); i-- > 0;) {  // the outermost is last
    const auto frame = frame_of(frames[i]);
    if (!frame) return std::nullopt;
    const std::size_t before = snapshot_.stacks.stack_count();
    stack = snapshot_.stacks.push(stack, *frame);
    if (snapshot_.stacks.stack_count() > before) budget_.count_memory(frames, kBytesOfStack);
  }
  budget_.count_memory(frames, kBytesOfStack);
  known_stacks_.emplace(frames.value().identity(), stack);
  return stack;
}

std::optional<StackTable::FrameId> StackReader::frame_of(const Field& frame) {
  if (!frame.is(ValueKind::dict)) return std::nullopt;
  const std::uint64_t identity = frame.value().identity();
  const auto known = known_frames_.find(identity);
  if (known != known_frames_.end()) return known->second;
  const auto read = read_frame(frame);
  if (!read) return std::nullopt;
  const std::size_t before = snapshot_.stacks.frame_count();
  const FrameId id = snapshot_.stacks.frame(*read);
  budget_.count_memory(frame, kBytesOfStack);
  if (snapshot_.stacks.frame_count() > before) {
    budget_.count_memory(frame, 2 * (kBytesOfText + read->file.size() + read->function.size()));
  }
  known_frames_.emplace(identity, id);
  return id;
}

std::optional<StackFrame> StackReader::read_frame(const Field& frame) {
  const auto file = text_at(frame, "filename"), function = text_at(frame, "name");
  const auto line = frame.find("line");
  if (!file || !function) return std::nullopt;
  const bool has_line = line && line->is(ValueKind::integer) && line->integer() > 0;
  return StackFrame{std::string{*file}, std::string{*function},
                    has_line ? line->natural() : std::uint64_t{0}};
}

LabelTable::Id StackReader::label_of(const Field& record) {
  for (const std::string_view key : {"user_metadata", "category"}) {
    const auto text = text_at(record, key);
    const bool says_something = text && !text->empty() && *text != "unknown" && *text != "N/A";
    if (says_something) return label(*text, record);
  }
  return LabelTable::kNone;
}

LabelTable::Id StackReader::label(std::string_view text, const Field& field) {
  constexpr std::size_t longest = 200;
  const std::size_t before = snapshot_.labels.size();
  const LabelTable::Id id = snapshot_.labels.add(text.substr(0, longest));
  if (snapshot_.labels.size() > before) {
    budget_.count_memory(field, kBytesOfText + 2 * std::min(text.size(), longest));
  }
  return id;
}

}  // namespace millrace::trace
