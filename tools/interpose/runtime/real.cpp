#include "runtime/real.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "runtime/trampolines.hpp"

namespace millrace::interpose {
namespace {

constexpr int kBuiltFor = CUDART_VERSION / 1000;

struct FoundRuntime {
  std::string path;
  int major = 0;
};

/** The major version in "libcudart.so.13" or "libcudart.so.13.0.48"; 0 for other files. */
int major_of(const char* path) {
  constexpr const char kName[] = "libcudart.so";
  const char* const slash = std::strrchr(path, '/');
  const char* const file = slash == nullptr ? path : slash + 1;
  if (std::strncmp(file, kName, sizeof kName - 1) != 0) return 0;
  const char* const version = file + sizeof kName - 1;
  return *version == '.' ? std::atoi(version + 1) : kBuiltFor;
}

// Finds the runtime that was loaded first.
FoundRuntime find_runtime() {
  FoundRuntime found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        const int major = major_of(info->dlpi_name);
        if (major == 0) return 0;
        *static_cast<FoundRuntime*>(out) = {info->dlpi_name, major};
        return 1;
      },
      &found);
  return found;
}

std::string name_of_runtime() { return "libcudart.so." + std::to_string(kBuiltFor); }

template <typename Pointer>
void look_up(Pointer& function, void* library, const char* name) {
  function = reinterpret_cast<Pointer>(dlsym(library, name));
}

// Whether this library has loaded the runtime, which then is not the program's.
std::atomic<bool> loaded_here{false};

void* open_program_runtime(Runtime& runtime) {
  FoundRuntime found = find_runtime();
  if (found.major == 0) {
    found = {name_of_runtime(), kBuiltFor};
    loaded_here = true;
  }
  void* const library = dlopen(found.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  bool all = true;
#define MILLRACE_RUNTIME(name)           \
  look_up(runtime.name, library, #name); \
  all = all && runtime.name != nullptr;
#define MILLRACE_OPTIONAL(name) look_up(runtime.name, library, #name);
#include "runtime/functions.def"
#undef MILLRACE_RUNTIME
#undef MILLRACE_OPTIONAL
  look_up(runtime.cudaMemcpy_ptds, library, "cudaMemcpy_ptds");
  if (!all) return nullptr;
  runtime.major = found.major;
  return library;
}

struct Opened {
  Runtime runtime;
  bool for_allocator = false;

  Opened() {
    void* library = open_program_runtime(runtime);
    if (library == nullptr) return;
    if (runtime.major != kBuiltFor)
      library = dlopen(name_of_runtime().c_str(), RTLD_NOW | RTLD_LOCAL);
    for_allocator = library != nullptr && fill_trampolines(library);
    if (for_allocator) return;
    warn_once(("this program uses the CUDA runtime " + std::to_string(runtime.major) +
               ", and Millrace was built for " + name_of_runtime() +
               ", which is not found: the program keeps its own allocator. Put the folder with " +
               name_of_runtime() + " into LD_LIBRARY_PATH")
                  .c_str());
  }
};

// Never destroyed, because destructors of static objects make calls, too.
const Opened& opened() {
  static const Opened* const all = new Opened;
  return *all;
}

}  // namespace

const char* to_string(Function function) noexcept {
  static constexpr const char* kNames[] = {
#define MILLRACE_RUNTIME(name) #name,
#define MILLRACE_OPTIONAL(name) #name,
#include "runtime/functions.def"
#undef MILLRACE_RUNTIME
#undef MILLRACE_OPTIONAL
  };
  return kNames[static_cast<std::size_t>(function)];
}

const Runtime& real() noexcept { return opened().runtime; }
bool allocator_has_runtime() noexcept { return opened().for_allocator; }

bool runtime_is_loaded() noexcept { return !loaded_here && find_runtime().major != 0; }

bool pytorch_is_loaded() noexcept {
  return dl_iterate_phdr(
             [](dl_phdr_info* info, std::size_t, void*) {
               return std::strstr(info->dlpi_name, "/libc10_cuda.so") == nullptr ? 0 : 1;
             },
             nullptr) != 0;
}

bool driver_is_loaded() noexcept {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  dlclose(library);
  return true;
}

void* driver_function(const char* name) noexcept {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : dlsym(library, name);
}

void warn_once(const char* what) noexcept {
  try {
    static std::mutex mutex;
    static auto* const told = new std::set<std::string>;
    const std::lock_guard lock{mutex};
    if (told->insert(what).second) std::fprintf(stderr, "millrace run: %s\n", what);
  } catch (const std::exception&) {  // no memory for a message
  }
}

}  // namespace millrace::interpose
