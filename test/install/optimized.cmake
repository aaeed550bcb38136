# The allocator alone, optimized across its sources (MILLRACE_LTO). Programs of the build work, and
# the installed archive works with every linker.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")
find_program(ccache ccache)
if(ccache)
  list(APPEND launch "-DCMAKE_CXX_COMPILER_LAUNCHER=${ccache}")
endif()
configure(fetch "-DFETCHCONTENT_SOURCE_DIR_MILLRACE=${SOURCE}/../.." -DEXAMPLES= ${launch} -DMILLRACE_LTO=ON
          -DMILLRACE_SHARED=OFF -DMILLRACE_CUDA=OFF -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG"
          "-DCMAKE_INSTALL_PREFIX=${prefix}" -DCMAKE_INSTALL_LIBDIR=lib)
expect(TRUE)
run("${CMAKE_COMMAND}" --build "${WORK}/build" --parallel 2)
run("${WORK}/build/c_only")

# has_machine_code_only(ARCHIVE): sets `only` to whether no object has the compiler's own format.
macro(has_machine_code_only archive)
  file(STRINGS "${archive}" names REGEX "^[.]gnu[.]lto_" LIMIT_COUNT 1)
  set(only TRUE)
  if(names)
    set(only FALSE)
  endif()
endmacro()
file(GLOB_RECURSE built "${WORK}/build/libmillrace_allocator.a")
has_machine_code_only("${built}")
if(only)
  message(FATAL_ERROR "${built} cannot be optimized when a program is linked")
endif()
run("${CMAKE_COMMAND}" --install "${WORK}/build" --component allocator)
has_machine_code_only("${prefix}/lib/libmillrace_allocator.a")
if(NOT only)
  message(FATAL_ERROR "the installed archive has more than machine code")
endif()
run("${C_COMPILER}" "-I${prefix}/include" "${SOURCE}/c_only/main.c" -o "${WORK}/linked" "-L${prefix}/lib" -lmillrace_allocator
    -lstdc++ -lm -lpthread -ldl)
run("${WORK}/linked")
