#include "millrace/observe/symbols.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

namespace millrace {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;  // largest table that is read

std::string demangled(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

std::string place(std::uintptr_t offset) {
  char text[24];
  std::snprintf(text, sizeof text, "+0x%zx", static_cast<std::size_t>(offset));
  return text;
}

/** Reads parts of a file. Checks every offset, since the file may be damaged. */
class ElfFile {
 public:
  explicit ElfFile(const std::string& path) : file_(path, std::ios::binary) {}

  template <typename Object>
  std::vector<Object> read(std::uint64_t offset, std::uint64_t bytes) {
    std::vector<Object> objects;
    if (bytes > kMostBytes || !file_.seekg(static_cast<std::streamoff>(offset))) return objects;
    objects.resize(bytes / sizeof(Object));
    file_.read(reinterpret_cast<char*>(objects.data()),
               static_cast<std::streamsize>(objects.size() * sizeof(Object)));
    if (!file_) objects.clear();
    return objects;
  }

 private:
  std::ifstream file_;
};

}  // namespace

Symbols::Table Symbols::read(const std::string& path) {
  Table table;
  ElfFile file{path};
  const auto headers = file.read<Elf64_Ehdr>(0, sizeof(Elf64_Ehdr));
  if (headers.empty() || std::memcmp(headers[0].e_ident, ELFMAG, SELFMAG) != 0) return table;
  const Elf64_Ehdr& header = headers[0];
  table.moves = header.e_type != ET_EXEC;
  const auto sections =
      file.read<Elf64_Shdr>(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
  const auto symbols = std::ranges::find(sections, Elf64_Word{SHT_SYMTAB}, &Elf64_Shdr::sh_type);
  if (symbols == sections.end() || symbols->sh_link >= sections.size()) return table;
  const Elf64_Shdr& strings = sections[symbols->sh_link];
  table.names = file.read<char>(strings.sh_offset, strings.sh_size);
  table.names.push_back('\0');
  for (const Elf64_Sym& symbol : file.read<Elf64_Sym>(symbols->sh_offset, symbols->sh_size)) {
    const bool is_function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_value != 0;
    if (!is_function || symbol.st_name >= table.names.size()) continue;
    table.symbols.push_back({symbol.st_value, symbol.st_value + symbol.st_size, symbol.st_name});
  }
  std::ranges::sort(table.symbols, {}, &Symbol::begin);
  return table;
}

trace::StackFrame Symbols::frame_of(std::uintptr_t pc) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(pc), &info) == 0 || info.dli_fname == nullptr)  // NOLINT
    return {.file = {}, .function = place(pc)};
  trace::StackFrame frame{.file = info.dli_fname, .function = {}};
  if (info.dli_sname != nullptr) {
    frame.function = demangled(info.dli_sname);
    return frame;
  }
  // The main program's name is its command, and the process may have changed its folder since.
  const bool is_program = frame.file.find('/') == std::string::npos;
  const auto [known, fresh] = tables_.try_emplace(frame.file);
  if (fresh) known->second = read(is_program ? "/proc/self/exe" : frame.file);
  const Table& table = known->second;
  const std::uintptr_t offset = pc - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  const std::uintptr_t at = table.moves ? offset : pc;
  const auto after = std::ranges::upper_bound(table.symbols, at, {}, &Symbol::begin);
  const bool found = after != table.symbols.begin() && at < std::prev(after)->end;
  frame.function = found ? demangled(table.names.data() + std::prev(after)->name) : place(offset);
  return frame;
}

}  // namespace millrace
