#include "check/site.hpp"

#include <dlfcn.h>
#include <unwind.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace millrace::virtual_cuda {
namespace {

constexpr std::size_t kMostFrames = 32;

struct Stack {
  std::array<std::uintptr_t, kMostFrames> addresses{};
  std::size_t count = 0;
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* data) {
  auto& stack = *static_cast<Stack*>(data);
  const std::uintptr_t address = _Unwind_GetIP(context);
  if (address == 0 || stack.count == kMostFrames) return _URC_END_OF_STACK;
  stack.addresses[stack.count++] = address - 1;  // in the call, not after it
  return _URC_NO_REASON;
}

std::string_view file_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/** The folder of a file, as the file system has it. */
std::string folder_of(const char* file) {
  std::error_code error;
  return std::filesystem::canonical(file, error).parent_path().string();
}

/** Whether a file is one of the libraries of this runtime: they lie in one folder and below it. */
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
  // The machine's own functions are between those of CUDA.
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
  Stack stack;
  _Unwind_Backtrace(add_frame, &stack);
  // With the static runtime everything is the program's own file.
  const Frame* call = nullptr;
  for (std::size_t i = 0; i < stack.count; ++i) {
    const Frame& at = frame(stack.addresses[i]);
    if (at.ours) {
      call = &at;
    } else if (call != nullptr) {
      return {call->symbol, at.place};
    }
  }
  return {"", "?"};
}

}  // namespace millrace::virtual_cuda
