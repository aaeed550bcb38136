#include "millrace/observe/call_stacks.hpp"

#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "millrace/observe/symbols.hpp"

namespace millrace {
namespace {

constexpr std::size_t kMostStacks = 65'536;

// Frames of a request itself, in a program that is linked with Millrace's code.
constexpr std::size_t kMostOwnFrames = 16;

/** Returns the addresses of the library that contains this code; none if the program contains it.
 */
struct OwnRange {
  OwnRange() noexcept {
    dl_iterate_phdr(
        [](dl_phdr_info* object, std::size_t, void* data) {
          auto& own = *static_cast<OwnRange*>(data);
          std::uintptr_t begin = UINTPTR_MAX, end = 0;
          for (std::size_t i = 0; i < object->dlpi_phnum; ++i) {
            const auto& part = object->dlpi_phdr[i];
            if (part.p_type != PT_LOAD) continue;
            begin = std::min<std::uintptr_t>(begin, object->dlpi_addr + part.p_vaddr);
            end = std::max<std::uintptr_t>(end, object->dlpi_addr + part.p_vaddr + part.p_memsz);
          }
          const auto here = reinterpret_cast<std::uintptr_t>(&range);
          if (here < begin || here >= end) return 0;
          const bool is_program = object->dlpi_name == nullptr || *object->dlpi_name == '\0';
          if (!is_program) own.begin = begin, own.end = end;
          return 1;
        },
        this);
  }
  static const OwnRange& range() noexcept {
    static const OwnRange own;
    return own;
  }
  [[nodiscard]] bool has(std::uintptr_t pc) const noexcept { return begin <= pc && pc < end; }
  [[nodiscard]] bool is_program() const noexcept { return begin == end; }

  std::uintptr_t begin = 0, end = 0;
};

/** Returns the return addresses of the calling thread, the innermost first. */
struct ReturnAddresses {
  const OwnRange& own;
  std::size_t most;
  std::array<std::uintptr_t, CallStacks::kMostFrames + kMostOwnFrames> at{};
  std::size_t count = 0;
};

_Unwind_Reason_Code take_frame(_Unwind_Context* context, void* data) {
  auto& found = *static_cast<ReturnAddresses*>(data);
  const std::uintptr_t pc = _Unwind_GetIP(context);
  if (pc == 0) return _URC_END_OF_STACK;
  if (found.count == 0 && found.own.has(pc - 1)) return _URC_NO_REASON;
  found.at[found.count++] = pc;
  return found.count == found.most ? _URC_END_OF_STACK : _URC_NO_REASON;
}

std::uint64_t hash_of(std::span<const std::uintptr_t> addresses) noexcept {
  std::uint64_t hash = 14695981039346656037U;
  for (const std::uintptr_t address : addresses) {
    hash = (hash ^ address) * 1099511628211U;
    hash ^= hash >> 29;
  }
  return hash;
}

bool is_of_millrace(std::string_view function) {
  return function.starts_with("millrace::") || function.starts_with("millrace_") ||
         function.starts_with("non-virtual thunk to millrace::") ||
         function.starts_with("virtual thunk to millrace::");
}

bool asks_for_memory(std::string_view function) {
  constexpr std::array words{"::allocate", "::malloc", "_malloc", "::buffer(",   "::Buffer::Buffer",
                             "::array<",   "::Array<", "::here(", "::allocated("};
  return std::ranges::any_of(
      words, [&](const char* word) { return function.find(word) != std::string_view::npos; });
}

/** Returns how many frames of a stack belong to the request itself, in a program that is linked
 * with Millrace's code. */
std::size_t own_frames(std::span<const trace::StackFrame> frames) {
  std::size_t own = 0;
  for (std::size_t i = 0; i < frames.size() && is_of_millrace(frames[i].function); ++i) {
    if (asks_for_memory(frames[i].function)) own = i + 1;
  }
  return own;
}

}  // namespace

struct CallStacks::Names {
  const trace::StackFrame& frame_of(std::uintptr_t pc) {
    const auto [known, fresh] = frames.try_emplace(pc);
    if (fresh) known->second = symbols.frame_of(pc - 1);  // an address within the call
    return known->second;
  }

  Symbols symbols;
  std::unordered_map<std::uintptr_t, trace::StackFrame> frames;
};

CallStacks::CallStacks(std::size_t frames)
    : frames_(std::clamp<std::size_t>(frames, 1, kMostFrames)),
      stacks_(1),
      names_(std::make_unique<Names>()) {}

CallStacks::~CallStacks() = default;

CallStacks::Id CallStacks::here() {
  const OwnRange& own = OwnRange::range();
  ReturnAddresses found{.own = own, .most = frames_ + (own.is_program() ? kMostOwnFrames : 0)};
  _Unwind_Backtrace(take_frame, &found);
  const std::span<const std::uintptr_t> addresses{found.at.data(), found.count};
  const std::uint64_t hash = hash_of(addresses);
  const std::lock_guard lock{mutex_};
  if (const auto known = known_.find(hash); known != known_.end()) return known->second;
  if (stacks_.size() > kMostStacks) return kNone;
  stacks_.emplace_back(addresses.begin(), addresses.end());
  return known_[hash] = static_cast<Id>(stacks_.size() - 1);
}

std::vector<trace::StackFrame> CallStacks::frames_of(Id stack) {
  std::vector<std::uintptr_t> addresses;
  {
    const std::lock_guard lock{mutex_};
    addresses = stacks_.at(stack);
  }
  std::vector<trace::StackFrame> frames;
  const std::lock_guard lock{names_mutex_};
  for (const std::uintptr_t pc : addresses) frames.push_back(names_->frame_of(pc));
  frames.erase(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(own_frames(frames)));
  if (frames.size() > frames_) frames.resize(frames_);
  return frames;
}

trace::StackTable::Id CallStacks::add_to(trace::StackTable& table, Id stack) {
  const std::vector<trace::StackFrame> frames = frames_of(stack);
  trace::StackTable::Id added = trace::StackTable::kNone;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
    added = table.push(added, table.frame(*frame));
  return added;
}

std::size_t CallStacks::size() const {
  const std::lock_guard lock{mutex_};
  return stacks_.size() - 1;
}

}  // namespace millrace
