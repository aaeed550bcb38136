// Catches calls that LD_PRELOAD misses: functions that a program looks up in the runtime by handle
// (dlsym(handle, "cudaMalloc")), and calls of libraries that are opened with RTLD_DEEPBIND. The
// loader reports each binding to an auditor (LD_AUDIT, see rtld-audit(7)). This auditor answers
// with the function of the same name in libmillrace-interpose.so, if that exists. It runs in every
// process that the program starts, so it uses the C library alone.

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#define MILLRACE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

enum Role : uintptr_t { kOther = 1, kOurs = 2, kCuda = 3 };

constexpr const char* kName = "libmillrace-interpose.so";

// The loader's entry for our library. Set when the library is loaded, which is before main.
link_map* ours = nullptr;

bool starts(const char* text, const char* with) { return strncmp(text, with, strlen(with)) == 0; }

Role role_of(const char* path) {
  const char* const slash = strrchr(path, '/');
  const char* const file = slash == nullptr ? path : slash + 1;
  if (strcmp(file, kName) == 0) return kOurs;
  return starts(file, "libcudart.so") || starts(file, "libcuda.so") ? kCuda : kOther;
}

// An auditor cannot search for a name in another object: dlsym does not work for a preloaded one.
// So this code reads the object's own tables.
struct Tables {
  const Elf64_Sym* symbols = nullptr;
  const char* names = nullptr;
  const uint32_t* hash = nullptr;  // of DT_GNU_HASH
};

Tables tables;

Tables tables_of(const link_map* map) {
  Tables found;
  for (const Elf64_Dyn* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    // The loader has relocated the addresses, or has left them as they are in the file.
    const Elf64_Addr value = entry->d_un.d_ptr;
    const Elf64_Addr address = value < map->l_addr ? value + map->l_addr : value;
    if (entry->d_tag == DT_SYMTAB) found.symbols = reinterpret_cast<const Elf64_Sym*>(address);
    if (entry->d_tag == DT_STRTAB) found.names = reinterpret_cast<const char*>(address);
    if (entry->d_tag == DT_GNU_HASH) found.hash = reinterpret_cast<const uint32_t*>(address);
  }
  return found;
}

uint32_t hash_of(const char* name) {
  uint32_t hash = 5381;
  for (; *name != 0; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

/** The address of our function of this name; 0 if it does not exist. */
uintptr_t find(const char* name) {
  if (tables.symbols == nullptr || tables.names == nullptr || tables.hash == nullptr) return 0;
  const uint32_t count = tables.hash[0], first = tables.hash[1], words = tables.hash[2];
  const uint32_t* const buckets = tables.hash + 4 + 2 * words;
  const uint32_t* const chains = buckets + count;
  const uint32_t hash = hash_of(name);
  uint32_t number = buckets[hash % count];
  if (number < first) return 0;
  for (;; ++number) {
    const uint32_t here = chains[number - first];
    const Elf64_Sym& symbol = tables.symbols[number];
    if ((here | 1) == (hash | 1) && strcmp(tables.names + symbol.st_name, name) == 0)
      return ours->l_addr + symbol.st_value;
    if ((here & 1) != 0) return 0;
  }
}

}  // namespace

MILLRACE_EXPORT unsigned la_version(unsigned version) {
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

MILLRACE_EXPORT unsigned la_objopen(link_map* map, Lmid_t, uintptr_t* cookie) {
  const Role role = role_of(map->l_name);
  *cookie = role;
  if (role == kOurs) {
    ours = map;
    tables = tables_of(map);
  }
  // Bindings of the runtime's own calls and of our calls stay as they are.
  return role == kOther ? LA_FLG_BINDFROM : role == kCuda ? LA_FLG_BINDTO : 0;
}

MILLRACE_EXPORT uintptr_t la_symbind64(Elf64_Sym* symbol, unsigned, uintptr_t* refers,
                                       uintptr_t* defines, unsigned* flags, const char* name) {
  *flags |= LA_SYMB_NOPLTENTER | LA_SYMB_NOPLTEXIT;
  // The loader reports look-ups with dlsym here regardless of the two objects' flags.
  if (*refers != kOther || *defines != kCuda || ours == nullptr || !starts(name, "cu"))
    return symbol->st_value;
  const uintptr_t function = find(name);
  return function == 0 ? symbol->st_value : function;
}
