#include "millrace/observe/trace/pickle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "millrace/observe/trace/parse_error.hpp"
#include "observe/trace/value/pickle_opcodes.hpp"
#include "observe/trace/value/tree_builder.hpp"

// A pickle is a program for a small stack machine. The stack holds values; MARK remembers a height
// of it, and the opcodes that gather (TUPLE, APPENDS, SETITEMS) take everything above the last
// mark. Lists and dicts are filled after they were made, perhaps through the memo, so they live in
// a table and the stack holds their index there. Every opcode consumes at least a byte and pushes
// at most one value, so memory is bounded by the length of the pickle.
//
// What a snapshot does not use is not judged: integers of any length, sets and bytearrays are
// skipped; a reader that asks for such a value gets its kind in the error.

namespace millrace::trace {

namespace {

using pickle::kOpcodes;
using pickle::Opcode;
using pickle::OpcodeEntry;
using pickle::Verdict;

constexpr std::string_view kPlainData =
    "only dicts, lists, tuples, strings, numbers, booleans and None are read";

std::string describe(std::uint8_t code) {
  const auto* const entry = std::ranges::find(kOpcodes, code, &OpcodeEntry::code);
  if (entry == kOpcodes.end()) return fmt::format("byte {:#04x}", code);
  return fmt::format("opcode {} ({:#04x})", entry->name, code);
}

std::string why_refused(std::uint8_t code) {
  const auto* const entry = std::ranges::find(kOpcodes, code, &OpcodeEntry::code);
  if (entry == kOpcodes.end()) return "is not an opcode of pickle protocols 2 to 5";
  switch (entry->verdict) {
    case Verdict::imports:
      return fmt::format("would run code, which is refused; {}", kPlainData);
    case Verdict::persists:
      return fmt::format("refers to something outside the file; {}", kPlainData);
    case Verdict::buffers:
      return fmt::format("refers to a buffer outside the file; {}", kPlainData);
    case Verdict::text:
      return "belongs to protocols 0 and 1; save it with protocol 2, 3, 4 or 5";
    case Verdict::taken:
      break;
  }
  return "has no place here";
}

class Machine {
 public:
  Machine(std::string bytes, const std::string& source, const TraceLimits& limits)
      : bytes_{std::move(bytes)},
        source_{source},
        limits_{limits},
        builder_{bytes_.size(), limits} {}

  ValueTree run() {
    try {
      read_protocol();
      for (begin_opcode(); code_ != static_cast<std::uint8_t>(Opcode::stop); begin_opcode()) {
        execute();
      }
    } catch (const TreeBuilder::TooMuch& problem) {
      fail(problem.what());
    }
    const ValueNode root = pop();
    if (builder_.height() != 0 || !marks_.empty())
      fail("STOP comes while a collection is still being built");
    try {
      return builder_.finish(std::move(bytes_), root, limits_.max_depth);
    } catch (const std::invalid_argument& problem) {
      throw ParseError{source_, "", fmt::format("pickle refused: {}", problem.what())};
    }
  }

 private:
  using Tag = ValueNode::Tag;

  void execute() {
    const auto opcode = static_cast<Opcode>(code_);
    if (!read_scalar(opcode) && !read_text(opcode) && !read_collection(opcode) &&
        !read_set(opcode) && !read_memo(opcode) && !read_stack(opcode)) {
      fail(fmt::format("{} {}", describe(code_), why_refused(code_)));
    }
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw ParseError{source_, fmt::format("byte {}", opcode_at_), problem};
  }

  // --- bytes ---

  void require(std::uint64_t count) const {
    const std::size_t left = bytes_.size() - at_;
    if (count <= left) return;
    fail(fmt::format("the file ends inside {}: {} more bytes wanted, {} left", describe(code_),
                     count, left));
  }

  std::uint64_t read_little(std::size_t count) {
    require(count);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      value |= std::uint64_t{static_cast<std::uint8_t>(bytes_[at_ + i])} << (8 * i);
    }
    at_ += count;
    return value;
  }

  void begin_opcode() {
    opcode_at_ = at_;
    if (at_ == bytes_.size()) fail("the file ends before the opcode STOP; it seems cut short");
    code_ = static_cast<std::uint8_t>(bytes_[at_++]);
  }

  void read_protocol() {
    constexpr std::uint64_t oldest = 2;
    constexpr std::uint64_t newest = 5;
    if (bytes_.empty()) fail("the file is empty");
    begin_opcode();
    if (static_cast<Opcode>(code_) != Opcode::proto) {
      fail("a pickle of protocol 2, 3, 4 or 5 begins with opcode PROTO (0x80)");
    }
    const std::uint64_t protocol = read_little(1);
    if (protocol < oldest || protocol > newest) {
      fail(fmt::format("pickle protocol {} is not read; save it with protocol 2, 3, 4 or 5",
                       protocol));
    }
  }

  // --- stack ---

  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  ValueNode& top() {
    if (builder_.height() <= floor()) {
      fail(fmt::format("{} finds the stack empty", describe(code_)));
    }
    return builder_.top();
  }

  ValueNode pop() {
    const ValueNode node = top();
    builder_.pop();
    return node;
  }

  std::size_t pop_mark() {
    if (marks_.empty()) fail(fmt::format("{} comes without a MARK", describe(code_)));
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    return mark;
  }

  void require_items(std::size_t items) const {
    if (builder_.height() >= floor() + items) return;
    fail(fmt::format("{} finds too little on the stack", describe(code_)));
  }

  void push_container(Tag kind, std::size_t items) {
    require_items(items);
    builder_.close(kind, builder_.height() - items);
  }

  /** The value below a height of the stack must be of this kind. */
  void require_below(std::size_t height, Tag kind, std::string_view wanted) const {
    if (height <= floor()) fail(fmt::format("{} finds the stack empty", describe(code_)));
    const ValueNode& node = builder_.at(height - 1);
    if (node.tag() == kind) return;
    fail(fmt::format("{} wants {}, but finds {}", describe(code_), wanted, kind_of(node)));
  }

  static std::string_view kind_of(ValueNode node) {
    static const ValueStore none;
    return to_string(Value{none, node.bits}.kind());
  }

  // Moves everything above a height of the stack into the container just below it.
  void gather(Tag kind, std::size_t from) {
    if (kind == Tag::dict && (builder_.height() - from) % 2 != 0) {
      fail(fmt::format("{} has a key without a value", describe(code_)));
    }
    require_below(from, kind, kind == Tag::dict ? "a dict" : "a list");
    builder_.append(from);
  }

  void gather_last(Tag kind, std::size_t items) {
    require_items(items + 1);
    gather(kind, builder_.height() - items);
  }

  // --- opcodes ---

  // Little-endian two's complement of any length.
  void push_long(std::uint64_t length) {
    require(length);
    const std::string_view digits = std::string_view{bytes_}.substr(at_, length);
    const bool negative = !digits.empty() && (digits.back() & 0x80) != 0;
    const char sign = negative ? '\xff' : '\0';
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(digits.size(), 8); ++i) {
      value &= ~(std::uint64_t{0xff} << (8 * i));
      value |= std::uint64_t{static_cast<std::uint8_t>(digits[i])} << (8 * i);
    }
    const bool fits = digits.size() <= 8 ||
                      (std::ranges::all_of(digits.substr(8), [&](char c) { return c == sign; }) &&
                       (static_cast<std::int64_t>(value) < 0) == negative);
    at_ += length;
    builder_.push(fits ? builder_.integer(static_cast<std::int64_t>(value))
                       : ValueNode::of(Tag::big_integer));
  }

  void push_integer(std::uint64_t value) {
    builder_.push(builder_.integer(static_cast<std::int64_t>(value)));
  }

  bool read_scalar(Opcode opcode) {
    switch (opcode) {
      case Opcode::none:
        builder_.push(ValueNode::of(Tag::none));
        return true;
      case Opcode::newtrue:
        builder_.push(ValueNode::of(Tag::boolean, 1));
        return true;
      case Opcode::newfalse:
        builder_.push(ValueNode::of(Tag::boolean, 0));
        return true;
      case Opcode::binint1:
        push_integer(read_little(1));
        return true;
      case Opcode::binint2:
        push_integer(read_little(2));
        return true;
      case Opcode::binint:
        builder_.push(builder_.integer(static_cast<std::int32_t>(read_little(4))));
        return true;
      case Opcode::long1:
        push_long(read_little(1));
        return true;
      case Opcode::long4:
        push_long(read_little(4));
        return true;
      case Opcode::binfloat:
        builder_.push(builder_.real(std::bit_cast<double>(__builtin_bswap64(read_little(8)))));
        return true;
      default:
        return false;
    }
  }

  void push_text(Tag kind, std::uint64_t length) {
    require(length);
    builder_.push(builder_.stretch(kind, at_, length));
    at_ += length;
  }

  bool read_text(Opcode opcode) {
    switch (opcode) {
      case Opcode::short_binunicode:
        push_text(Tag::string, read_little(1));
        return true;
      case Opcode::binunicode:
        push_text(Tag::string, read_little(4));
        return true;
      case Opcode::binunicode8:
        push_text(Tag::string, read_little(8));
        return true;
      // str of Python 2
      case Opcode::short_binstring:
        push_text(Tag::string, read_little(1));
        return true;
      case Opcode::binstring:
        push_text(Tag::string, read_little(4));
        return true;
      case Opcode::short_binbytes:
        push_text(Tag::bytes, read_little(1));
        return true;
      case Opcode::binbytes:
        push_text(Tag::bytes, read_little(4));
        return true;
      case Opcode::binbytes8:
        push_text(Tag::bytes, read_little(8));
        return true;
      default:
        return false;
    }
  }

  bool read_collection(Opcode opcode) {
    switch (opcode) {
      case Opcode::empty_list:
        push_container(Tag::list, 0);
        return true;
      case Opcode::empty_dict:
        push_container(Tag::dict, 0);
        return true;
      case Opcode::empty_tuple:
        push_container(Tag::tuple, 0);
        return true;
      case Opcode::tuple1:
        push_container(Tag::tuple, 1);
        return true;
      case Opcode::tuple2:
        push_container(Tag::tuple, 2);
        return true;
      case Opcode::tuple3:
        push_container(Tag::tuple, 3);
        return true;
      case Opcode::tuple:
        builder_.close(Tag::tuple, pop_mark());
        return true;
      case Opcode::append:
        gather_last(Tag::list, 1);
        return true;
      case Opcode::setitem:
        gather_last(Tag::dict, 2);
        return true;
      case Opcode::appends:
        gather(Tag::list, pop_mark());
        return true;
      case Opcode::setitems:
        gather(Tag::dict, pop_mark());
        return true;
      default:
        return false;
    }
  }

  bool read_set(Opcode opcode) {
    switch (opcode) {
      case Opcode::empty_set:
        builder_.push(ValueNode::of(Tag::other));
        return true;
      case Opcode::additems: {
        const std::size_t mark = pop_mark();
        require_below(mark, Tag::other, "a set");
        builder_.drop_to(mark);
        return true;
      }
      case Opcode::frozenset:
        builder_.drop_to(pop_mark());
        builder_.push(ValueNode::of(Tag::other));
        return true;
      case Opcode::bytearray8: {
        const std::uint64_t length = read_little(8);
        require(length);
        at_ += length;
        builder_.push(ValueNode::of(Tag::other));
        return true;
      }
      default:
        return false;
    }
  }

  void put(std::uint64_t index) {
    const ValueNode node = top();
    // Writers number their objects as they go, so an index is never beyond the values made so far.
    const std::uint64_t made = builder_.pushed();
    if (index > made) {
      fail(fmt::format("{} puts object {} into the memo, but there are only {} yet",
                       describe(code_), index, made));
    }
    if (index >= memo_.size()) grow_memo(index);
    if (memo_[index].tag() == Tag::absent) ++memoized_;
    memo_[index] = node;
  }

  void grow_memo(std::uint64_t index) {
    std::size_t size = memo_.size();
    memo_.resize(index + 1);
    for (; size < memo_.size(); ++size) memo_[size] = ValueNode::of(Tag::absent);
    builder_.count_also(memo_.bytes());
  }

  void get(std::uint64_t index) {
    if (index >= memo_.size() || memo_[index].tag() == Tag::absent) {
      fail(fmt::format("{} asks for object {}, which the memo does not hold", describe(code_),
                       index));
    }
    builder_.push(memo_[index]);
  }

  bool read_memo(Opcode opcode) {
    switch (opcode) {
      case Opcode::binput:
        put(read_little(1));
        return true;
      case Opcode::long_binput:
        put(read_little(4));
        return true;
      case Opcode::memoize:
        put(memoized_);
        return true;
      case Opcode::binget:
        get(read_little(1));
        return true;
      case Opcode::long_binget:
        get(read_little(4));
        return true;
      default:
        return false;
    }
  }

  bool read_stack(Opcode opcode) {
    switch (opcode) {
      case Opcode::mark:
        if (marks_.size() == limits_.max_depth) {
          fail(fmt::format("nested more than {} deep", limits_.max_depth));
        }
        marks_.push_back(builder_.height());
        return true;
      case Opcode::pop:
        // Python pops the mark itself when nothing lies above it.
        if (!marks_.empty() && builder_.height() == floor())
          marks_.pop_back();
        else
          pop();
        return true;
      case Opcode::pop_mark:
        builder_.drop_to(pop_mark());
        return true;
      case Opcode::dup:
        builder_.push(top());
        return true;
      case Opcode::frame:
        require(read_little(8));
        return true;
      default:
        return false;
    }
  }

  std::string bytes_;
  const std::string& source_;
  const TraceLimits& limits_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  std::uint8_t code_ = 0;
  std::uint64_t memoized_ = 0;
  std::vector<std::size_t> marks_;
  TreeBuilder builder_;
  GrowingArray<ValueNode> memo_;
};

}  // namespace

ValueTree read_pickle(std::string bytes, const std::string& source, const TraceLimits& limits) {
  return Machine{std::move(bytes), source, limits}.run();
}

}  // namespace millrace::trace
