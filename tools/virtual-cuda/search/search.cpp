// Makes the loader find the virtual libraries instead of NVIDIA's. LD_LIBRARY_PATH is not enough. A
// program's libraries may name NVIDIA's folders in a DT_RPATH, which is searched first, or open
// files by their path. The loader asks an auditor (LD_AUDIT, see rtld-audit(7)) about each name
// first. This auditor answers for the names that the virtual runtime has. It runs in every process
// that the program starts, so it uses the C library alone.

#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MILLRACE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// Subfolders of MILLRACE_VIRTUAL_LIBRARIES, in the order of the search.
constexpr const char* kFolders[] = {"", "/13", "/12"};

// One buffer is enough: the loader copies the answer, and asks under a lock.
char found[PATH_MAX];

bool may_be_virtual(const char* file) {
  return strncmp(file, "libcu", 5) == 0 || strncmp(file, "libnvidia-ml.", 13) == 0;
}

}  // namespace

MILLRACE_EXPORT unsigned la_version(unsigned version) {
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

MILLRACE_EXPORT char* la_objsearch(const char* name, uintptr_t*, unsigned flag) {
  auto* const asked = const_cast<char*>(name);
  const char* const slash = strrchr(name, '/');
  const char* const file = slash == nullptr ? name : slash + 1;
  if (flag != LA_SER_ORIG || !may_be_virtual(file)) return asked;
  const char* const libraries = getenv("MILLRACE_VIRTUAL_LIBRARIES");
  if (libraries == nullptr) return asked;
  for (const char* const folder : kFolders) {
    const int length = snprintf(found, sizeof found, "%s%s/%s", libraries, folder, file);
    if (length > 0 && static_cast<size_t>(length) < sizeof found && access(found, R_OK) == 0)
      return found;
  }
  return asked;
}
