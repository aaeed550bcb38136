#include "check/site.hpp"

#include <dlfcn.h>
#include <unwind.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include "check/rules.hpp"
#include "millrace/text/parse_number.hpp"

namespace millrace::virtual_cuda {
namespace {

// Frames of CUDA and of the program together.
constexpr std::size_t kMostWalked = 32;
// Letters of a function's name in a report. Names of templates can be very long.
constexpr std::size_t kMostLetters = 120;

struct Walk {
  std::array<std::uintptr_t, kMostWalked> addresses{};
  std::size_t count = 0;
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* data) {
  auto& stack = *static_cast<Walk*>(data);
  const std::uintptr_t address = _Unwind_GetIP(context);
  if (address == 0 || stack.count == kMostWalked) return _URC_END_OF_STACK;
  stack.addresses[stack.count++] = address - 1;  // in the call, not after it
  return _URC_NO_REASON;
}

std::string_view file_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/** The folder of a file, without symbolic links. */
std::string folder_of(const char* file) {
  std::error_code error;
  return std::filesystem::canonical(file, error).parent_path().string();
}

/** Whether a file is a library of this runtime. All of them are in one folder or below it. */
bool is_ours(const char* file) {
  static const std::string own = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<const void*>(&file_of), &info);
    return info.dli_fname == nullptr ? std::string{} : folder_of(info.dli_fname);
  }();
  if (own.empty() || !file_of(file).starts_with("libcu")) return false;
  const std::string folder = folder_of(file);
  return folder == own || folder.starts_with(own + '/');
}

/** The stack's number in a place, such as "app+0x1234 [1]"; 0 if the bracket ends no place. */
std::size_t stack_number(std::string_view text, std::size_t bracket) {
  std::size_t digits = bracket;
  while (digits > 0 &&
         std::string_view{"0123456789abcdef"}.find(text[digits - 1]) != std::string_view::npos)
    --digits;
  if (digits == bracket || !text.substr(0, digits).ends_with("+0x")) return 0;
  std::string_view rest = text.substr(bracket + 2);
  const auto number = text::take_number<std::size_t>(rest);
  return number && rest.starts_with(']') ? *number : 0;
}

}  // namespace

const Sites::Frame& Sites::frame(std::uintptr_t address) {
  const auto [entry, added] = frames_.try_emplace(address);
  Frame& found = entry->second;
  if (!added) return found;
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(address), &info) == 0 || info.dli_fname == nullptr) {
    found.place = "?";
    return found;
  }
  found.ours = is_ours(info.dli_fname);
  // C++ functions of the runtime itself are not functions of CUDA.
  if (info.dli_sname != nullptr && !std::string_view{info.dli_sname}.starts_with("_Z"))
    found.symbol = info.dli_sname;
  std::array<char, 32> offset{};
  std::snprintf(
      offset.data(), offset.size(), "+0x%zx",
      static_cast<std::size_t>(address - reinterpret_cast<std::uintptr_t>(info.dli_fbase)));
  found.place = std::string{file_of(info.dli_fname)} + offset.data();
  return found;
}

Sites::Call Sites::current() {
  Walk walk;
  _Unwind_Backtrace(add_frame, &walk);
  // With the static runtime, all code is in the program's own file.
  const Frame* call = nullptr;
  std::size_t first = 0;
  for (; first < walk.count; ++first) {
    const Frame& at = frame(walk.addresses[first]);
    if (at.ours) {
      call = &at;
    } else if (call != nullptr) {
      break;
    }
  }
  if (call == nullptr || first == walk.count) return {"", "?"};
  Stack stack;
  const std::size_t most = holds(Rule::callers_tell_calls_apart) ? kMostFrames : 1;
  for (std::size_t i = first; i < walk.count && stack.size() < most; ++i)
    stack.push_back(walk.addresses[i]);
  const std::string& place = frame(stack.front()).place;
  const auto [entry, added] = numbers_.try_emplace(std::move(stack), stacks_.size() + 1);
  if (added) stacks_.push_back(&entry->first);
  return {call->symbol, place + " [" + std::to_string(entry->second) + "]"};
}

std::string Sites::lines_of(std::size_t number) {
  const std::string label = "\n  [" + std::to_string(number) + "] ";
  const std::string indent = "\n" + std::string(label.size() - 1, ' ');
  std::string lines;
  for (const std::uintptr_t address : *stacks_[number - 1]) {
    std::string function = symbols_.frame_of(address).function;
    if (function.size() > kMostLetters)
      function.replace(kMostLetters - 3, std::string::npos, "...");
    lines += lines.empty() ? label : indent;
    if (!function.starts_with('+')) lines += function + " at ";
    lines += frame(address).place;
    if (function == "main") break;
  }
  return lines;
}

std::string Sites::stacks_of(std::string_view message) {
  std::set<std::size_t> told;
  std::string lines;
  for (std::size_t at = message.find(" ["); at != std::string_view::npos;
       at = message.find(" [", at + 1)) {
    const std::size_t number = stack_number(message, at);
    if (number == 0 || number > stacks_.size() || !told.insert(number).second) continue;
    lines += lines_of(number);
  }
  return lines;
}

}  // namespace millrace::virtual_cuda
