#include "run/program_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <string_view>

#include "cli/error.hpp"

namespace millrace::cli {
namespace {

/** A mapped file. All offsets in it are checked, because it may be damaged. */
class MappedProgram {
 public:
  explicit MappedProgram(const std::string& path)
      : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status {};
    if (file_ < 0 || fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) return;
    mode_ = status.st_mode;
    bytes_ = static_cast<std::size_t>(status.st_size);
    void* const start = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file_, 0);
    if (start != MAP_FAILED) start_ = static_cast<const char*>(start);
  }
  ~MappedProgram() {
    if (start_ != nullptr) munmap(const_cast<char*>(start_), bytes_);
    if (file_ >= 0) close(file_);
  }
  MappedProgram(const MappedProgram&) = delete;
  MappedProgram& operator=(const MappedProgram&) = delete;

  [[nodiscard]] mode_t mode() const noexcept { return mode_; }

  /** The object at `offset`, if it lies completely in the file. */
  template <typename Object>
  [[nodiscard]] std::optional<Object> at(std::uint64_t offset) const {
    if (start_ == nullptr || offset > bytes_ || bytes_ - offset < sizeof(Object)) return {};
    Object object;
    std::memcpy(&object, start_ + offset, sizeof object);
    return object;
  }
  [[nodiscard]] std::string_view text(std::uint64_t offset) const {
    if (start_ == nullptr || offset >= bytes_) return {};
    return {start_ + offset, strnlen(start_ + offset, bytes_ - offset)};
  }

 private:
  const int file_;
  mode_t mode_ = 0;
  std::size_t bytes_ = 0;
  const char* start_ = nullptr;
};

std::string path_of_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* const path = std::getenv("PATH");
  std::istringstream folders{path == nullptr ? "/bin:/usr/bin" : path};
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + '/' + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return name;  // execvp will report that the program does not exist
}

bool names_loader(const MappedProgram& file, const Elf64_Ehdr& header) {
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto segment = file.at<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
    if (segment && segment->p_type == PT_INTERP) return true;
  }
  return false;
}

enum class Symbol { defined, imported };

/** Whether a symbol table of the file defines or imports the function, as `kind` says. */
bool has_function(const MappedProgram& file, const Elf64_Ehdr& header, std::string_view function,
                  Symbol kind) {
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto table = file.at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr));
    if (!table || (table->sh_type != SHT_SYMTAB && table->sh_type != SHT_DYNSYM)) continue;
    const auto names = file.at<Elf64_Shdr>(header.e_shoff + table->sh_link * sizeof(Elf64_Shdr));
    if (!names) continue;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = file.at<Elf64_Sym>(table->sh_offset + at);
      if (!symbol) break;
      const bool is_defined = symbol->st_shndx != SHN_UNDEF;
      if (is_defined == (kind == Symbol::defined) &&
          file.text(names->sh_offset + symbol->st_name) == function)
        return true;
    }
  }
  return false;
}

[[noreturn]] void refuse_program(const std::string& name, const std::string& why,
                                 const std::string& right) {
  throw UsageError{"the calls of '" + name + "' cannot be taken over: " + why, "",
                   right + "; --allocator own runs it as it is"};
}

}  // namespace

void require_catchable(const std::string& name) {
  const MappedProgram file{path_of_program(name)};
  const auto header = file.at<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
  if (header->e_ident[EI_CLASS] != ELFCLASS64)
    refuse_program(name, "it is a program of 32 bits", "a program of 64 bits");
  if ((file.mode() & (S_ISUID | S_ISGID)) != 0)
    refuse_program(name, "it changes its user, and the loader gives it no library of others",
                   "a program without the set-user-id bit");
  if (!names_loader(file, *header))
    refuse_program(name, "it is linked statically", "a program that is linked dynamically");
  if (has_function(file, *header, "cudaMalloc", Symbol::defined))
    refuse_program(
        name, "it has the CUDA runtime inside",
        "the shared runtime: nvcc -cudart shared, or with CMake CUDA_RUNTIME_LIBRARY Shared");
}

bool calls_function(const std::string& name, const std::string& function) {
  const MappedProgram file{path_of_program(name)};
  const auto header = file.at<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return false;
  return header->e_ident[EI_CLASS] == ELFCLASS64 &&
         has_function(file, *header, function, Symbol::imported);
}

}  // namespace millrace::cli
