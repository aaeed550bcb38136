# Properties of all targets of this project. Compiler cache and sanitizers apply to everything that
# is built here, and are set once.

# _millrace_relative_path(OUT FOLDER FILE): the path of FILE relative to FOLDER. It is the same in
# every clone, which ccache needs. Links are resolved first, because the system follows ".." from
# the target of a link.
function(_millrace_relative_path out folder file)
  file(REAL_PATH "${folder}" folder)
  file(REAL_PATH "${file}" file)
  file(RELATIVE_PATH path "${folder}" "${file}")
  set(${out} "${path}" PARENT_SCOPE)
endfunction()

if(PROJECT_IS_TOP_LEVEL)
  find_program(MILLRACE_CCACHE ccache)
  if(MILLRACE_CCACHE)
    if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
      set(CMAKE_CXX_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/tools/ccache.sh" "${MILLRACE_CCACHE}")
    endif()
    if(NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
      set(CMAKE_CUDA_COMPILER_LAUNCHER "${MILLRACE_CCACHE}")
    endif()
  endif()
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
endif()

if(MILLRACE_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${MILLRACE_SANITIZE};-fno-sanitize-recover=all>")
  add_link_options("-fsanitize=${MILLRACE_SANITIZE}")
  if(MILLRACE_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL Clang) # GCC defines it, clang since version 21
    add_compile_definitions(__SANITIZE_ADDRESS__=1)
  endif()
endif()
if(MILLRACE_FUZZ)
  if(MILLRACE_UNITY STREQUAL WIDE) # the allowlist below has folder names
    set(MILLRACE_UNITY ON)
  endif()
  # libFuzzer needs counters in the parsers. In other sources they make tests two to four times
  # slower.
  _millrace_relative_path(seen "${PROJECT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}/cmake/fuzzed-sources.txt")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link;-fsanitize-coverage-allowlist=${seen}>")
  # clang warns about deprecated functions that libstdc++ itself uses, and about an allowlist that a
  # precompiled header does not need.
  add_compile_options(-Wno-deprecated-declarations -Wno-unused-command-line-argument)
endif()

# Compilers for which the sources are free of warnings. Others warn about other code, and GCC 13 and
# 14 falsely about code inlined from the libraries. With those compilers, a user's build must not
# fail or be noisy.
set(MILLRACE_CHECKED_COMPILER FALSE)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(MILLRACE_CHECKED_COMPILER TRUE)
endif()

# millrace_precompile(TARGET HEADER): compiles HEADER once for the target, if MILLRACE_PRECOMPILE is
# on. Sources still include what they use, because a build without presets has no precompiled
# header. Its cost equals its saving for five sources, or for five units of millrace_unity, which is
# called later.
function(millrace_precompile target header)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  if(NOT MILLRACE_PRECOMPILE OR count LESS 6)
    return()
  endif()
  target_precompile_headers(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${header}>")
  _millrace_precompiled_options(${target})
endfunction()

# millrace_reuse_precompiled(TARGET FROM): TARGET uses the precompiled header of FROM, which has the
# same compile options.
function(millrace_reuse_precompiled target from)
  get_target_property(headers ${from} PRECOMPILE_HEADERS)
  if(NOT MILLRACE_PRECOMPILE OR NOT headers)
    return()
  endif()
  set_property(TARGET ${target} PROPERTY PRECOMPILE_HEADERS) # its own
  target_precompile_headers(${target} REUSE_FROM ${from})
  _millrace_precompiled_options(${target})
endfunction()

function(_millrace_precompiled_options target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU) # ccache needs it for precompiled headers
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>")
  elseif(CMAKE_CXX_COMPILER_ID STREQUAL Clang) # accepts ccache's newer copy of a header
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
  endif()
endfunction()

# millrace_unity(TARGET [BY_FOLDER|TEST]): compiles several sources together, as MILLRACE_UNITY
# says. docs/build-time.md has the cost of a unit.
#
#   OFF   each source by itself
#   ON    the sources of one folder together: a whole build takes a third of the time
#   WIDE  up to 40 sources in the target's folder together, and all CUDA sources. With BY_FOLDER:
#         those in each src/FOLDER and each src/sink/NAME. Small folders are joined, but not those
#         of sinks. A whole build takes less time than with ON, but a small change compiles a larger
#         unit. For builds in which nobody edits the sources.
#
# With TEST, WIDE is the same as ON, because tests of one area share many names. Two targets of one
# CMakeLists.txt must not share many sources: the groups of the later target would replace those of
# the earlier one.
#
# Names in unnamed namespaces must differ within a unit, in tests too. A folder with many sources
# has several units. A hash of the name selects the unit, so that a new source does not move others.
function(millrace_unity target)
  if(NOT MILLRACE_UNITY)
    return()
  endif()
  cmake_parse_arguments(arg "BY_FOLDER;TEST" "" "" ${ARGN})
  get_target_property(all_sources ${target} SOURCES)
  set(folders "")
  set(most 12)
  set(wide FALSE)
  if(MILLRACE_UNITY STREQUAL WIDE AND NOT arg_TEST)
    set(wide TRUE)
    set(most 40)
  endif()
  foreach(source IN LISTS all_sources)
    if(NOT source MATCHES "\\.(cpp|cu)$")
      continue()
    endif()
    _millrace_unity_folder(folder "${source}" ${wide} "${arg_BY_FOLDER}")
    if(source MATCHES "\\.cu$")
      if(wide)
        set(folder ${target})
      endif()
      list(APPEND cuda_folders ${folder})
      list(APPEND cuda_sources_of_${folder} "${source}")
    else()
      list(APPEND folders ${folder})
      list(APPEND sources_of_${folder} "${source}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  if(wide)
    _millrace_join_folders()
  endif()
  set(all_units 0)
  foreach(folder IN LISTS folders)
    list(LENGTH sources_of_${folder} count)
    math(EXPR units "(${count} + ${most} - 1) / ${most}")
    math(EXPR all_units "${all_units} + ${units}")
    foreach(source IN LISTS sources_of_${folder})
      cmake_path(GET source STEM name)
      string(SHA1 hash "${name}")
      string(SUBSTRING ${hash} 0 6 hash)
      math(EXPR unit "0x${hash} % ${units}")
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP ${folder}_${unit})
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  if(all_units LESS 6) # see millrace_precompile
    set_property(TARGET ${target} PROPERTY PRECOMPILE_HEADERS)
  endif()
  list(REMOVE_DUPLICATES cuda_folders)
  foreach(folder IN LISTS cuda_folders)
    _millrace_cuda_unity(${target} ${folder} ${cuda_sources_of_${folder}})
  endforeach()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU) # it takes an included source for a header
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>")
    if(wide) # garbage collection from half a GiB on, not 128 MiB: 10% less time, more memory
      target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=524288>")
    endif()
  endif()
endfunction()

# Sets OUT to whether release builds get link-time optimization. It needs one compiler for all objects, and objcopy for
# millrace_install_machine_code.
function(_millrace_optimizes_together out)
  set(${out} TRUE PARENT_SCOPE)
  if(NOT MILLRACE_LTO
     OR MILLRACE_SANITIZE
     OR NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU
     OR NOT CMAKE_OBJCOPY)
    set(${out} FALSE PARENT_SCOPE)
  elseif(CMAKE_CUDA_HOST_COMPILER AND NOT CMAKE_CUDA_HOST_COMPILER STREQUAL CMAKE_CXX_COMPILER)
    set(${out} FALSE PARENT_SCOPE)
  endif()
endfunction()

# millrace_optimize_together(TARGET): lets the linker optimize across the sources of the target (link-time optimization),
# for each program and shared library of a release build that contains them. MILLRACE_LTO switches it on.
#
# The objects have machine code as well, for linkers that do not know this compiler's own format.
function(millrace_optimize_together target)
  _millrace_optimizes_together(optimizes)
  if(optimizes)
    target_compile_options(${target} PRIVATE "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-flto=auto;-ffat-lto-objects>")
  endif()
endfunction()

# millrace_install_machine_code(TARGET COMPONENT FOLDER): removes the compiler's own format from the archive that is
# installed in FOLDER, because other versions of the compiler refuse it. Call it after install(TARGETS).
function(millrace_install_machine_code target component folder)
  get_target_property(type ${target} TYPE)
  _millrace_optimizes_together(optimizes)
  if(NOT optimizes OR NOT type STREQUAL STATIC_LIBRARY)
    return()
  endif()
  if(NOT IS_ABSOLUTE "${folder}")
    set(folder "\${CMAKE_INSTALL_PREFIX}/${folder}")
  endif()
  install(
    CODE "
    set(archive \"\$ENV{DESTDIR}${folder}/$<TARGET_FILE_NAME:${target}>\")
    if(\"$<CONFIG>\" STREQUAL Release AND NOT IS_SYMLINK \"\${archive}\")
      execute_process(
        COMMAND \"${CMAKE_OBJCOPY}\" --wildcard --remove-section=.gnu.lto_* --remove-section=.gnu.debuglto_* \"\${archive}\"
        COMMAND_ERROR_IS_FATAL ANY)
    endif()"
    COMPONENT ${component})
endfunction()

# Joins folders of millrace_unity that follow each other, as long as their sources fit in one unit.
# Each sink stays by itself: whoever adds one need not know the names in the others.
macro(_millrace_join_folders)
  set(joined "")
  set(last "")
  foreach(folder IN LISTS folders)
    list(LENGTH sources_of_${folder} count)
    set(together ${most})
    if(last)
      list(LENGTH sources_of_${last} together)
    endif()
    math(EXPR together "${together} + ${count}")
    if(folder MATCHES "_src_sink_")
      list(APPEND joined ${folder})
    elseif(together LESS_EQUAL most)
      list(APPEND sources_of_${last} ${sources_of_${folder}})
    else()
      list(APPEND joined ${folder})
      set(last ${folder})
    endif()
  endforeach()
  set(folders ${joined})
endmacro()

# Sets OUT to the name of the folder whose sources are compiled together with SOURCE.
function(_millrace_unity_folder out source wide by_folder)
  cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" OUTPUT_VARIABLE folder)
  cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
  cmake_path(GET folder PARENT_PATH folder)
  if(wide)
    if(by_folder)
      string(REGEX REPLACE "^([^/]+/src/(sink/[^/]+|[^/]+))(/.*)?$" "\\1" folder "${folder}")
    else()
      cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE top)
      string(REGEX REPLACE "^(${top})/.*" "\\1" folder "${folder}")
    endif()
  endif()
  string(MAKE_C_IDENTIFIER "${folder}" folder)
  set(${out} ${folder} PARENT_SCOPE)
endfunction()

# _millrace_cuda_unity(TARGET FOLDER SOURCE...): compiles CUDA sources together. CMake before 3.31
# supports this only for C++. A CUDA source by itself reads the headers four times, which takes most
# of its time.
function(_millrace_cuda_unity target folder)
  list(LENGTH ARGN count)
  if(count LESS 2)
    return()
  endif()
  set(units "${CMAKE_CURRENT_BINARY_DIR}/unity")
  file(MAKE_DIRECTORY "${units}")
  set(unit "${units}/${folder}.cu")
  set(text "")
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    _millrace_relative_path(source "${units}" "${source}")
    string(APPEND text "#include \"${source}\"\n")
  endforeach()
  file(CONFIGURE OUTPUT "${unit}" CONTENT "${text}" @ONLY)
  set_source_files_properties(${ARGN} PROPERTIES HEADER_FILE_ONLY ON)
  target_sources(${target} PRIVATE "${unit}")
endfunction()

# millrace_target(TARGET): sets the language level and the warnings.
function(millrace_target target)
  millrace_precompile(${target} "${PROJECT_SOURCE_DIR}/cmake/precompiled.hpp")
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  # CMake 3.25.1 (Debian 12) does not know CUDA_STANDARD 20.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>")
  if(NOT MILLRACE_CHECKED_COMPILER AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(
      ${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds;-Wno-stringop-overflow>")
  endif()
  if(NOT MILLRACE_WERROR OR NOT MILLRACE_CHECKED_COMPILER)
    return()
  endif()
  # Designated initializers may leave out members with defaults.
  set(warnings -Wall -Wextra -Werror -Wno-missing-field-initializers)
  if(MILLRACE_SANITIZE)
    list(APPEND warnings -Wno-maybe-uninitialized) # GCC's manual: false with -fsanitize
  endif()
  set(cuda_warnings "-Xcompiler=-Wall,-Wextra,-Werror" "--Werror=all-warnings")
  target_compile_options(
    ${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>"
                      "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_warnings}>")
endfunction()

# millrace_private_headers(NAME): the target millrace_NAME_private, for tests and benchmarks of a
# library's private parts. It has the headers in ./src, and those in ./internal that they need. No
# library and no program links it.
function(millrace_private_headers name)
  add_library(millrace_${name}_private INTERFACE)
  target_include_directories(millrace_${name}_private INTERFACE "${CMAKE_CURRENT_SOURCE_DIR}/src")
  target_link_libraries(millrace_${name}_private INTERFACE $<TARGET_NAME_IF_EXISTS:millrace_${name}_internal>)
endfunction()

# millrace_library(NAME SOURCES): the library millrace::NAME (in this project also the target
# millrace_NAME). Public headers are in ./include, private ones in ./src. The library is installed
# as the component NAME. Headers in ./internal are for other targets of this project, which link
# millrace_NAME_internal; they are not installed. Tests and benchmarks of private parts link
# millrace_NAME_private.
function(millrace_library name sources)
  add_library(millrace_${name} ${sources})
  add_library(millrace::${name} ALIAS millrace_${name})
  millrace_target(millrace_${name})
  millrace_unity(millrace_${name} BY_FOLDER)
  set_target_properties(millrace_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(
    millrace_${name}
    PUBLIC "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>"
           "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>"
    PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/src")
  if(IS_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/internal")
    add_library(millrace_${name}_internal INTERFACE)
    target_include_directories(millrace_${name}_internal INTERFACE "${CMAKE_CURRENT_SOURCE_DIR}/internal")
    target_link_libraries(millrace_${name} PRIVATE $<BUILD_INTERFACE:millrace_${name}_internal>)
  endif()
  millrace_private_headers(${name})
  install(
    DIRECTORY include/
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
    COMPONENT ${name}
    FILES_MATCHING
    PATTERN "*.hpp"
    PATTERN "*.h")
  install(
    TARGETS millrace_${name}
    EXPORT millrace-${name}-targets
    COMPONENT ${name})
endfunction()

# millrace_leave_out(VARIABLE REGEX): removes the matching files from the list. The expression is
# compared with the path in the project, such as /pipeline/src/collective/mpi/world.cpp. A match on
# the whole path could also match the folder of the clone.
function(millrace_leave_out variable regex)
  set(kept "")
  foreach(source IN LISTS ${variable})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE path)
    if(NOT "/${path}" MATCHES "${regex}")
      list(APPEND kept "${source}")
    endif()
  endforeach()
  set(${variable} "${kept}" PARENT_SCOPE)
endfunction()

# millrace_sources(OUT FOLDER): the sources in FOLDER. Without CUDA it leaves out *.cu and folders
# named cuda. It also leaves out folders named after a sink that is not built.
function(millrace_sources out folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/*.cpp")
  if(MILLRACE_HAS_CUDA)
    file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS "${folder}/*.cu")
    list(APPEND sources ${cuda_sources})
  else()
    millrace_leave_out(sources "/cuda/")
  endif()
  foreach(absent IN LISTS MILLRACE_ABSENT_SINKS)
    millrace_leave_out(sources "/${absent}/")
  endforeach()
  set(${out} "${sources}" PARENT_SCOPE)
endfunction()

# millrace_auditor(TARGET SOURCE FOLDER COMPONENT): a library that the dynamic loader loads before a
# program's own libraries. It links only the C library, is built into lib/FOLDER, and is installed
# with the program's other libraries of FOLDER.
function(millrace_auditor target source folder component)
  cmake_path(GET source STEM name)
  add_library(${target} MODULE ${source})
  millrace_target(${target})
  set_target_properties(
    ${target}
    PROPERTIES PREFIX ""
               OUTPUT_NAME ${name}
               CXX_VISIBILITY_PRESET hidden
               LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib/${folder}")
  target_compile_options(${target} PRIVATE -fno-exceptions -fno-rtti)
  target_link_options(${target} PRIVATE -nodefaultlibs LINKER:-z,defs)
  target_link_libraries(${target} PRIVATE c)
  install(
    TARGETS ${target}
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/millrace/${folder}"
    COMPONENT ${component})
endfunction()
