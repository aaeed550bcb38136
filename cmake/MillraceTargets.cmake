# What every target of this project has in common. Compiler cache and sanitizers hold for everything
# that is built here, and are set once.

# _millrace_relative_path(OUT FOLDER FILE): the path of FILE from FOLDER, which is the same in every clone, for ccache. The
# system follows ".." from the folder that a link leads to: hence links are resolved first.
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
  if(MILLRACE_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL Clang) # GCC defines it, clang not before 21
    add_compile_definitions(__SANITIZE_ADDRESS__=1)
  endif()
endif()
if(MILLRACE_FUZZ)
  if(MILLRACE_UNITY STREQUAL WIDE) # the list below has names of folders
    set(MILLRACE_UNITY ON)
  endif()
  # libFuzzer has to see what the parsers do. Elsewhere its counters make tests two to four times slower.
  _millrace_relative_path(seen "${PROJECT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}/cmake/fuzzed-sources.txt")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link;-fsanitize-coverage-allowlist=${seen}>")
  # clang does not know that what libstdc++ uses itself may be deprecated, and a precompiled header needs no list.
  add_compile_options(-Wno-deprecated-declarations -Wno-unused-command-line-argument)
endif()

# The compilers that are kept free of warnings. Others warn of other things, and GCC 13 and 14 falsely
# of what they inline from the libraries: with them, a user's build must not fail or be noisy.
set(MILLRACE_CHECKED_COMPILER FALSE)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(MILLRACE_CHECKED_COMPILER TRUE)
endif()

# millrace_precompile(TARGET HEADER): HEADER is compiled once for the target, if MILLRACE_PRECOMPILE is on.
# Sources still include what they use: a build without presets has none. It costs as much as it saves in five sources, or
# in five of the units that millrace_unity, which is called later, makes of them.
function(millrace_precompile target header)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  if(NOT MILLRACE_PRECOMPILE OR count LESS 6)
    return()
  endif()
  target_precompile_headers(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${header}>")
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU) # so that ccache can tell what a precompiled header changes
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>")
  elseif(CMAKE_CXX_COMPILER_ID STREQUAL Clang) # so that ccache's copy of a header, which is newer, serves
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
  endif()
endfunction()

# millrace_unity(TARGET [BY_FOLDER|TEST]): several sources are compiled together, as MILLRACE_UNITY says. What a unit costs is
# in docs/build-time.md.
#
#   OFF   each source by itself
#   ON    the sources of one folder together: a whole build takes a third of the time
#   WIDE  all sources below the target's folder together, or with BY_FOLDER those below each src/FOLDER and each
#         src/sink/NAME: less again, but a small change compiles a larger unit. For builds in which nobody edits the sources.
#
# With TEST, WIDE is as ON: tests of one area have many names in common. Not for sources of two targets of one
# CMakeLists.txt that are many, or the groups of the later target are those of the earlier one, too.
#
# Names in unnamed namespaces have to differ within what is compiled together, in tests too. There are several units where
# there are many sources; a hash of the name decides, so that a new source moves no other.
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
      list(APPEND cuda_folders ${folder})
      list(APPEND cuda_sources_of_${folder} "${source}")
    else()
      list(APPEND folders ${folder})
      list(APPEND sources_of_${folder} "${source}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
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
  if(all_units LESS 6) # as millrace_precompile says
    set_property(TARGET ${target} PROPERTY PRECOMPILE_HEADERS)
  endif()
  list(REMOVE_DUPLICATES cuda_folders)
  foreach(folder IN LISTS cuda_folders)
    _millrace_cuda_unity(${target} ${folder} ${cuda_sources_of_${folder}})
  endforeach()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU) # which takes a source that is included for a header
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>")
    if(wide) # collects garbage above half a GiB, not above 128 MiB: a tenth of the time, for memory
      target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=524288>")
    endif()
  endif()
endfunction()

# Sets OUT to the name of the folder with whose sources SOURCE is compiled.
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

# _millrace_cuda_unity(TARGET FOLDER SOURCE...): CUDA sources are compiled together. CMake before 3.31 can do that for C++
# only. Each source by itself reads the headers four times, which is most of its time.
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

# millrace_target(TARGET): language level and warnings.
function(millrace_target target)
  millrace_precompile(${target} "${PROJECT_SOURCE_DIR}/cmake/precompiled.hpp")
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  # CUDA_STANDARD 20 is not known to CMake 3.25.1 (Debian 12).
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>")
  if(NOT MILLRACE_CHECKED_COMPILER AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(
      ${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds;-Wno-stringop-overflow>")
  endif()
  if(NOT MILLRACE_WERROR OR NOT MILLRACE_CHECKED_COMPILER)
    return()
  endif()
  # A designated initializer leaves out what keeps its default: that is what it is for.
  set(warnings -Wall -Wextra -Werror -Wno-missing-field-initializers)
  if(MILLRACE_SANITIZE)
    list(APPEND warnings -Wno-maybe-uninitialized) # false ones, says GCC's manual of -fsanitize
  endif()
  set(cuda_warnings "-Xcompiler=-Wall,-Wextra,-Werror" "--Werror=all-warnings")
  target_compile_options(
    ${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>"
                      "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_warnings}>")
endfunction()

# millrace_private_headers(NAME): the target millrace_NAME_private, for tests and benchmarks of a library's private
# parts: it has the headers in ./src, and those in ./internal that they need. No library and no program links it.
function(millrace_private_headers name)
  add_library(millrace_${name}_private INTERFACE)
  target_include_directories(millrace_${name}_private INTERFACE "${CMAKE_CURRENT_SOURCE_DIR}/src")
  target_link_libraries(millrace_${name}_private INTERFACE $<TARGET_NAME_IF_EXISTS:millrace_${name}_internal>)
endfunction()

# millrace_library(NAME SOURCES): the library millrace::NAME (here also the target millrace_NAME), with
# public headers in ./include and private ones in ./src, and its installation as the component NAME.
# Headers in ./internal are for this project's other targets, which link millrace_NAME_internal: they are not installed.
# Tests and benchmarks of private parts link millrace_NAME_private.
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

# millrace_leave_out(VARIABLE REGEX): takes the files that match out of the list. A file matches with its path below the
# project, such as /pipeline/src/collective/mpi/world.cpp: a regular expression on the whole path would also match the
# folder into which somebody cloned the project.
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

# millrace_sources(OUT FOLDER): the sources under FOLDER. What needs CUDA (*.cu, and folders named
# cuda) is left out where there is none, and so are folders named as a sink that is not built.
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

# millrace_auditor(TARGET SOURCE FOLDER COMPONENT): what the dynamic loader loads before a program's own libraries. It
# links the C library only, is built into lib/FOLDER, and is installed with the program's other libraries of FOLDER.
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
