# cmake -DNAME=... -DOUTPUT=... -DFILES=a;b -P write_source.cmake
set(rows "")
foreach(file IN LISTS FILES)
  get_filename_component(stem "${file}" NAME_WLE)
  file(READ "${file}" text)
  if(text MATCHES "\\)millrace\"")
    message(FATAL_ERROR "${file}: cannot be embedded, it has the closing delimiter in it")
  endif()
  string(APPEND rows "    {\"${stem}\", R\"millrace(${text})millrace\"},\n")
endforeach()
file(
  WRITE "${OUTPUT}"
  "#include \"millrace/embedded/${NAME}.hpp\"

#include <array>

namespace millrace::embedded {
namespace {

constexpr auto kFiles = std::to_array<EmbeddedFile>({
${rows}});

}  // namespace

std::span<const EmbeddedFile> ${NAME}() noexcept { return kFiles; }

}  // namespace millrace::embedded
")
