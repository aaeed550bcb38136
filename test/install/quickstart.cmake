# The program of docs/quickstart.md, taken from that page. It must build with the installed
# allocator and print the output that the page shows.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

file(READ "${SOURCE}/../../docs/quickstart.md" page)

# take(LANGUAGE OUT): sets OUT to the text of the page's only block in LANGUAGE.
function(take language out)
  string(FIND "${page}" "\n```${language}\n" begin)
  if(begin EQUAL -1)
    message(FATAL_ERROR "docs/quickstart.md has no block of ${language}")
  endif()
  string(LENGTH "\n```${language}\n" opening)
  math(EXPR begin "${begin} + ${opening}")
  string(SUBSTRING "${page}" ${begin} -1 rest)
  string(FIND "${rest}" "```" end)
  string(SUBSTRING "${rest}" 0 ${end} text)
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

take(cmake project)
take(cpp program)
take(text shown)
file(WRITE "${WORK}/project/CMakeLists.txt" "${project}")
file(WRITE "${WORK}/project/main.cpp" "${program}")

run("${CMAKE_COMMAND}" --install "${BUILD}" --config "${CONFIG}" --prefix "${prefix}" --component
    allocator)
set(SOURCE "${WORK}")
configure(project)
expect(TRUE)
run("${CMAKE_COMMAND}" --build "${WORK}/build")
execute_process(COMMAND "${WORK}/build/quickstart" OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
if(NOT shown STREQUAL "$ build/quickstart\n${printed}")
  message(FATAL_ERROR "docs/quickstart.md shows\n${shown}and the program prints\n${printed}")
endif()
