#include "millrace/observe/trace/pickle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "millrace/observe/trace/parse_error.hpp"
#include "observe/trace/value/pickle_opcodes.hpp"

// A pickle is a program for a small stack machine. The stack holds values; MARK remembers a height
// of it, and the opcodes that gather (TUPLE, APPENDS, SETITEMS) take everything above the last
// mark. Lists and dicts are filled after they were made, perhaps through the memo, so they live in
// a table and the stack holds their index there. Every opcode consumes at least a byte and pushes
// at most one value, so memory is bounded by the length of the pickle.

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
  if (entry == kOpcodes.end()) return "is no opcode of pickle protocols 2 to 5";
  switch (entry->verdict) {
    case Verdict::imports:
      return fmt::format("would run code, which is refused; {}", kPlainData);
    case Verdict::persists:
      return fmt::format("refers to something outside the file; {}", kPlainData);
    case Verdict::sets:
      return fmt::format("makes a set; {}", kPlainData);
    case Verdict::buffers:
      return fmt::format("makes a buffer; {}", kPlainData);
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
      : bytes_{std::move(bytes)}, source_{source}, limits_{limits} {}

  ValueTree run() {
    read_protocol();
    for (begin_opcode(); code_ != static_cast<std::uint8_t>(Opcode::stop); begin_opcode()) {
      const auto opcode = static_cast<Opcode>(code_);
      if (!read_scalar(opcode) && !read_text(opcode) && !read_collection(opcode) &&
          !read_memo(opcode) && !read_stack(opcode)) {
        fail(fmt::format("{} {}", describe(code_), why_refused(code_)));
      }
    }
    const ValueNode root = pop();
    if (!stack_.empty() || !marks_.empty())
      fail("STOP comes while a collection is still being built");
    try {
      return {std::move(bytes_), std::move(containers_), root, limits_.max_depth};
    } catch (const std::invalid_argument& problem) {
      throw ParseError{source_, "", fmt::format("pickle refused: {}", problem.what())};
    }
  }

 private:
  static constexpr auto kAbsent = static_cast<ValueKind>(0xff);

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

  void push(ValueNode node) {
    if (++values_ > limits_.max_values) {
      fail(fmt::format("more than {} values", limits_.max_values));
    }
    stack_.push_back(node);
  }

  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  ValueNode& top() {
    if (stack_.size() <= floor()) fail(fmt::format("{} finds the stack empty", describe(code_)));
    return stack_.back();
  }

  ValueNode pop() {
    const ValueNode node = top();
    stack_.pop_back();
    return node;
  }

  std::size_t pop_mark() {
    if (marks_.empty()) fail(fmt::format("{} comes without a MARK", describe(code_)));
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    return mark;
  }

  std::vector<ValueNode>& top_container(ValueKind kind) {
    const ValueNode& node = top();
    if (node.kind != kind) {
      fail(fmt::format("{} wants {}, but finds {}", describe(code_), to_string(kind),
                       to_string(node.kind)));
    }
    return containers_[node.bits];
  }

  void push_container(ValueKind kind, std::size_t items) {
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(items);
    containers_.emplace_back(first, stack_.end());
    stack_.erase(first, stack_.end());
    push(ValueNode::container(kind, containers_.size() - 1));
  }

  // Moves everything above a height of the stack into the container just below it.
  void gather(ValueKind kind, std::size_t from) {
    const std::vector<ValueNode> items{stack_.begin() + static_cast<std::ptrdiff_t>(from),
                                       stack_.end()};
    if (kind == ValueKind::dict && items.size() % 2 != 0) {
      fail(fmt::format("{} has a key without a value", describe(code_)));
    }
    stack_.resize(from);
    auto& container = top_container(kind);
    container.insert(container.end(), items.begin(), items.end());
  }

  void gather_last(ValueKind kind, std::size_t items) {
    if (stack_.size() < floor() + items + 1) {
      fail(fmt::format("{} finds too little on the stack", describe(code_)));
    }
    gather(kind, stack_.size() - items);
  }

  void push_tuple(std::size_t items) {
    if (stack_.size() < floor() + items) {
      fail(fmt::format("{} finds too little on the stack", describe(code_)));
    }
    push_container(ValueKind::tuple, items);
  }

  // --- opcodes ---

  // Little-endian two's complement of any length, as long as the value fits in 64 bits.
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
    if (!fits) fail(fmt::format("an integer of {} bytes does not fit in 64 bits", length));
    at_ += length;
    push(ValueNode::integer(static_cast<std::int64_t>(value)));
  }

  bool read_scalar(Opcode opcode) {
    switch (opcode) {
      case Opcode::none:
        push({});
        return true;
      case Opcode::newtrue:
        push(ValueNode::boolean(true));
        return true;
      case Opcode::newfalse:
        push(ValueNode::boolean(false));
        return true;
      case Opcode::binint1:
        push(ValueNode::integer(static_cast<std::int64_t>(read_little(1))));
        return true;
      case Opcode::binint2:
        push(ValueNode::integer(static_cast<std::int64_t>(read_little(2))));
        return true;
      case Opcode::binint:
        push(ValueNode::integer(static_cast<std::int32_t>(read_little(4))));
        return true;
      case Opcode::long1:
        push_long(read_little(1));
        return true;
      case Opcode::long4:
        push_long(read_little(4));
        return true;
      case Opcode::binfloat:
        push({ValueKind::real, 0, __builtin_bswap64(read_little(8))});
        return true;
      default:
        return false;
    }
  }

  void push_text(ValueKind kind, std::uint64_t length) {
    require(length);
    if (length > UINT32_MAX) fail("a string of 4 GiB or more is not read");
    push(ValueNode::text(kind, at_, length));
    at_ += length;
  }

  bool read_text(Opcode opcode) {
    switch (opcode) {
      case Opcode::short_binunicode:
        push_text(ValueKind::string, read_little(1));
        return true;
      case Opcode::binunicode:
        push_text(ValueKind::string, read_little(4));
        return true;
      case Opcode::binunicode8:
        push_text(ValueKind::string, read_little(8));
        return true;
      // str of Python 2
      case Opcode::short_binstring:
        push_text(ValueKind::string, read_little(1));
        return true;
      case Opcode::binstring:
        push_text(ValueKind::string, read_little(4));
        return true;
      case Opcode::short_binbytes:
        push_text(ValueKind::bytes, read_little(1));
        return true;
      case Opcode::binbytes:
        push_text(ValueKind::bytes, read_little(4));
        return true;
      case Opcode::binbytes8:
        push_text(ValueKind::bytes, read_little(8));
        return true;
      default:
        return false;
    }
  }

  bool read_collection(Opcode opcode) {
    switch (opcode) {
      case Opcode::empty_list:
        push_container(ValueKind::list, 0);
        return true;
      case Opcode::empty_dict:
        push_container(ValueKind::dict, 0);
        return true;
      case Opcode::empty_tuple:
        push_container(ValueKind::tuple, 0);
        return true;
      case Opcode::tuple1:
        push_tuple(1);
        return true;
      case Opcode::tuple2:
        push_tuple(2);
        return true;
      case Opcode::tuple3:
        push_tuple(3);
        return true;
      case Opcode::tuple:
        push_container(ValueKind::tuple, stack_.size() - pop_mark());
        return true;
      case Opcode::append:
        gather_last(ValueKind::list, 1);
        return true;
      case Opcode::setitem:
        gather_last(ValueKind::dict, 2);
        return true;
      case Opcode::appends:
        gather(ValueKind::list, pop_mark());
        return true;
      case Opcode::setitems:
        gather(ValueKind::dict, pop_mark());
        return true;
      default:
        return false;
    }
  }

  void put(std::uint64_t index) {
    const ValueNode node = top();
    // Writers number their objects as they go, so an index is never beyond the values made so far.
    if (index > values_) {
      fail(fmt::format("{} puts object {} into the memo, but there are only {} yet",
                       describe(code_), index, values_));
    }
    if (index >= memo_.size()) memo_.resize(index + 1, ValueNode{kAbsent});
    if (memo_[index].kind == kAbsent) ++memoized_;
    memo_[index] = node;
  }

  void get(std::uint64_t index) {
    if (index >= memo_.size() || memo_[index].kind == kAbsent) {
      fail(fmt::format("{} asks for object {}, which the memo does not hold", describe(code_),
                       index));
    }
    push(memo_[index]);
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
        marks_.push_back(stack_.size());
        return true;
      case Opcode::pop:
        // Python pops the mark itself when nothing lies above it.
        if (!marks_.empty() && stack_.size() == floor())
          marks_.pop_back();
        else
          pop();
        return true;
      case Opcode::pop_mark:
        stack_.resize(pop_mark());
        return true;
      case Opcode::dup:
        push(top());
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
  std::uint64_t values_ = 0;
  std::uint64_t memoized_ = 0;
  std::vector<ValueNode> stack_;
  std::vector<std::size_t> marks_;
  std::vector<ValueNode> memo_;
  ValueTree::Containers containers_;
};

}  // namespace

ValueTree read_pickle(std::string bytes, const std::string& source, const TraceLimits& limits) {
  return Machine{std::move(bytes), source, limits}.run();
}

}  // namespace millrace::trace
