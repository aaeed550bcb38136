#include "run/libraries.hpp"

#include <filesystem>
#include <optional>

#include "cli/error.hpp"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;

/** The parent folder of this program's folder. */
fs::path prefix_here() { return fs::read_symlink("/proc/self/exe").parent_path().parent_path(); }

std::optional<Interposer> look_for_interposer() {
  const fs::path prefix = prefix_here();
  for (const char* const place : {"lib/interpose", MILLRACE_INTERPOSE_LIBDIR}) {
    Interposer found{(prefix / place / "libmillrace-interpose.so").string(),
                     (prefix / place / "catch.so").string()};
    if (fs::exists(found.library) && fs::exists(found.auditor)) return found;
  }
  return std::nullopt;
}

}  // namespace

VirtualCuda find_virtual_cuda() {
  const fs::path prefix = prefix_here();
  for (const char* const place : {"lib/virtual-cuda", MILLRACE_VIRTUAL_CUDA_LIBDIR}) {
    const fs::path root = prefix / place;
    VirtualCuda found{root.string(), {}, {}};
    for (const char* const major : {"13", "12"}) {
      const fs::path folder = root / major;
      if (fs::exists(folder / (std::string{"libcudart.so."} + major)))
        found.folders.push_back(folder.string());
    }
    if (found.folders.empty() || !fs::exists(root / "libcuda.so.1")) continue;
    found.folders.push_back(found.root);
    if (fs::exists(root / "search.so")) found.auditor = (root / "search.so").string();
    return found;
  }
  throw UsageError{"the virtual CUDA runtime is not there", "",
                   "a build of the targets millrace_virtual_cudart_12 and _13, or an installation "
                   "of the component virtual-cuda"};
}

bool has_interposer() { return look_for_interposer().has_value(); }

Interposer find_interposer() {
  if (const auto found = look_for_interposer()) return *found;
  throw UsageError{"this build cannot put a program on Millrace's allocator", "",
                   "a build with a CUDA toolkit and without sanitizers; --allocator own runs the "
                   "program on its own"};
}

}  // namespace millrace::cli
