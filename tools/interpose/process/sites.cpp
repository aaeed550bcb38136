#include "process/sites.hpp"

#include <dlfcn.h>
#include <unwind.h>

#include <array>
#include <cstddef>

namespace millrace::interpose {
namespace {

/** Where the program will return to, the innermost first. */
struct ReturnAddresses {
  static constexpr std::size_t kMost = 24;
  std::array<std::uintptr_t, kMost> at;
  std::size_t count = 0;
};

/** The range of this library, whose own frames are not the program's. */
struct OwnRange {
  OwnRange() noexcept {
    Dl_info info{};
    const auto* const here = reinterpret_cast<const void*>(&lies_within);
    if (dladdr(here, &info) != 0) begin = reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  }
  static bool lies_within(std::uintptr_t pc) noexcept {
    static const OwnRange own;
    Dl_info info{};
    return dladdr(reinterpret_cast<const void*>(pc), &info) != 0 &&  // NOLINT
           reinterpret_cast<std::uintptr_t>(info.dli_fbase) == own.begin;
  }
  std::uintptr_t begin = 0;
};

_Unwind_Reason_Code take_frame(_Unwind_Context* context, void* data) {
  auto& found = *static_cast<ReturnAddresses*>(data);
  const std::uintptr_t pc = _Unwind_GetIP(context);
  if (pc == 0) return _URC_END_OF_STACK;
  // The outer frames are the program's without a look.
  if (found.count == 0 && OwnRange::lies_within(pc - 1)) return _URC_NO_REASON;
  found.at[found.count++] = pc;
  return found.count == ReturnAddresses::kMost ? _URC_END_OF_STACK : _URC_NO_REASON;
}

std::uint64_t hash_of(const ReturnAddresses& addresses) noexcept {
  std::uint64_t hash = 14695981039346656037U;
  for (std::size_t i = 0; i < addresses.count; ++i) {
    hash = (hash ^ addresses.at[i]) * 1099511628211U;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

trace::StackTable::Id Sites::here() {
  ReturnAddresses found;
  _Unwind_Backtrace(take_frame, &found);
  const std::uint64_t hash = hash_of(found);
  const std::lock_guard lock{mutex_};
  const auto [known, fresh] = stacks_.try_emplace(hash, trace::StackTable::kNone);
  if (!fresh) return known->second;
  trace::StackTable::Id stack = trace::StackTable::kNone;
  for (std::size_t i = found.count; i-- > 0;) stack = writer_.stack(stack, frame_of(found.at[i]));
  known->second = stack;
  return stack;
}

trace::StackTable::FrameId Sites::frame_of(std::uintptr_t pc) {
  const auto [known, fresh] = frames_.try_emplace(pc, 0U);
  if (fresh) known->second = writer_.frame(symbols_.frame_of(pc - 1));  // within the call
  return known->second;
}

}  // namespace millrace::interpose
