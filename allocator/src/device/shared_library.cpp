#include "device/shared_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>

namespace millrace {

SharedLibrary::SharedLibrary(const char* name) : handle_(::dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  const char* const reason = ::dlerror();
  problem_ = reason == nullptr ? "it cannot be loaded" : reason;
}

std::string SharedLibrary::path() const {
  link_map* map = nullptr;
  if (!loaded() || ::dlinfo(handle_, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0) return {};
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(map->l_name, error);
  return error ? map->l_name : file.string();
}

void* SharedLibrary::symbol(const char* name) const {
  return loaded() ? ::dlsym(handle_, name) : nullptr;
}

}  // namespace millrace
