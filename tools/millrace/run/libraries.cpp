#include "run/libraries.hpp"

#include <filesystem>

#include "cli/error.hpp"

namespace millrace::cli {

std::vector<std::string> virtual_cuda_folders() {
  namespace fs = std::filesystem;
  const fs::path prefix = fs::read_symlink("/proc/self/exe").parent_path().parent_path();
  for (const char* const place : {"lib/virtual-cuda", MILLRACE_VIRTUAL_CUDA_LIBDIR}) {
    std::vector<std::string> folders;
    for (const char* const major : {"13", "12"}) {
      const fs::path folder = prefix / place / major;
      if (fs::exists(folder / (std::string{"libcudart.so."} + major)))
        folders.push_back(folder.string());
    }
    if (!folders.empty()) return folders;
  }
  throw UsageError{"the virtual CUDA runtime is not there", "",
                   "a build of the targets millrace_virtual_cudart_12 and _13, or an installation "
                   "of the component virtual-cuda"};
}

}  // namespace millrace::cli
