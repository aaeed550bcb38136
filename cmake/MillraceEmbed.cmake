# millrace_embed(TARGET NAME FILE...): embeds text files into TARGET. Its sources read them like
# this:
#
#   #include "millrace/embedded/NAME.hpp"
#   for (const millrace::EmbeddedFile& file : millrace::embedded::NAME()) use(file.name, file.text);
#
# `name` is the file's name without folder and extension. Files are sorted by name. The generated
# sources are updated when a file changes. The headers are private and not installed.

set(MILLRACE_EMBED_DIR "${CMAKE_CURRENT_LIST_DIR}/embed")

function(millrace_embed target name)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/embedded")
  set(source "${folder}/${name}.cpp")
  configure_file("${MILLRACE_EMBED_DIR}/embedded.hpp.in" "${folder}/millrace/embedded/${name}.hpp" @ONLY)
  list(SORT ARGN)
  add_custom_command(
    OUTPUT "${source}"
    COMMAND "${CMAKE_COMMAND}" "-DNAME=${name}" "-DOUTPUT=${source}" "-DFILES=${ARGN}" -P
            "${MILLRACE_EMBED_DIR}/write_source.cmake"
    DEPENDS ${ARGN} "${MILLRACE_EMBED_DIR}/write_source.cmake"
    COMMENT "Embedding ${name}"
    VERBATIM)
  target_sources(${target} PRIVATE "${source}")
  target_include_directories(${target} PRIVATE "${folder}" "${MILLRACE_EMBED_DIR}/include")
endfunction()
