# The package of the allocator in an empty prefix. libmillrace.so must export only Millrace's
# symbols. The programs of docs/examples are built with it by CMake (static, shared) and by
# pkg-config, and run on the virtual CUDA runtime.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/examples.cmake")

foreach(component allocator shared)
  run("${CMAKE_COMMAND}" --install "${BUILD}" --config "${CONFIG}" --prefix "${prefix}" --component ${component})
endforeach()
file(GLOB libraries "${prefix}/${LIBDIR}/libmillrace.so.*.*.*")
list(LENGTH libraries count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "libmillrace.so is not in ${prefix}/${LIBDIR}: ${libraries}")
endif()

# The symbols that the library exports.
execute_process(COMMAND "${NM}" -D --defined-only -C "${libraries}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE ";" "," symbols "${symbols}")
string(REGEX REPLACE "\n" ";" symbols "${symbols}")
set(exported 0)
foreach(symbol IN LISTS symbols)
  if(symbol STREQUAL "")
    continue()
  endif()
  string(REGEX REPLACE "^[0-9a-f]* . " "" name "${symbol}")
  if(NOT name MATCHES "^(typeinfo( name)? for |vtable for |VTT for |(non-)?virtual thunk to |guard variable for )?millrace(::|_|@|$)")
    message(FATAL_ERROR "libmillrace.so exports ${name}")
  endif()
  math(EXPR exported "${exported} + 1")
endforeach()
if(exported LESS 100)
  message(FATAL_ERROR "libmillrace.so exports only ${exported} symbols")
endif()
execute_process(COMMAND "${READELF}" -d "${libraries}" OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
if(NOT dynamic MATCHES "SONAME[^\n]*\\[libmillrace.so.[0-9]+.[0-9]+\\]")
  message(FATAL_ERROR "libmillrace.so has no versioned name: ${dynamic}")
endif()
string(REGEX MATCHALL "NEEDED[^\n]*\\[([^]]*)\\]" needed "${dynamic}")
foreach(need IN LISTS needed)
  if(NOT need MATCHES "\\[(libcudart|libstdc\\+\\+|libgcc_s|libc|libm|libdl|libpthread|ld-linux[^]]*)\\.so")
    message(FATAL_ERROR "libmillrace.so needs more than the CUDA runtime and C++: ${need}")
  endif()
endforeach()

# A C program, built by pkg-config.
set(ENV{PKG_CONFIG_PATH} "${prefix}/${LIBDIR}/pkgconfig")
foreach(name millrace millrace-static)
  execute_process(COMMAND pkg-config --cflags --libs ${name} OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  set(program "${WORK}/c_only_${name}")
  run("${C_COMPILER}" -std=c99 -pedantic -Wall -Wextra -Werror "${SOURCE}/c_only/main.c" -o "${program}" ${flags}
      "-Wl,-rpath,${prefix}/${LIBDIR}" ${CUDA_LINK})
  run_on_virtual_gpu(instant "${program}")
endforeach()

# A program that loads and unloads the library while it runs.
set(program "${WORK}/loads")
run("${C_COMPILER}" -std=c99 -Wall -Wextra -Werror -D_GNU_SOURCE "${SOURCE}/c_only/loads.c" -o "${program}" -ldl)
run_on_virtual_gpu(instant "${program}" "${libraries}")
if(VIRTUAL AND NOT printed STREQUAL "memory\nmemory\nmemory\n")
  message(FATAL_ERROR "a program that loads libmillrace.so gets: ${printed}")
endif()

if(NOT EXAMPLES)
  message(STATUS "No CUDA toolkit: the examples are not built")
  return()
endif()
# The examples, built by CMake without the packages that only a build of Millrace needs.
set(without -DCMAKE_DISABLE_FIND_PACKAGE_fmt=TRUE -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=TRUE
            -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=TRUE -DCMAKE_DISABLE_FIND_PACKAGE_BLAS=TRUE)
set(SOURCE "${EXAMPLES}/..")
# The Thrust example takes half a minute to compile, so only the first library builds it.
set(thrust "-DCMAKE_CUDA_COMPILER=${CUDA_COMPILER}" -DCMAKE_CUDA_ARCHITECTURES=80)
foreach(library allocator shared)
  configure(examples -DMILLRACE_LIBRARY=${library} ${without} "-DCUDAToolkit_ROOT=${CUDA_ROOT}" ${thrust})
  expect(TRUE)
  run("${CMAKE_COMMAND}" --build "${WORK}/build" --parallel 2)
  run_examples("${WORK}/build")
  set(thrust -DMILLRACE_EXAMPLE_THRUST=OFF)
endforeach()

# Examples in C and in C++ by pkg-config, too.
foreach(name millrace millrace-static)
  execute_process(COMMAND pkg-config --cflags --libs ${name} OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  set(program "${WORK}/c_example_${name}")
  run("${C_COMPILER}" -std=c99 -Wall -Wextra -Werror "-I${CUDA_ROOT}/include" "${EXAMPLES}/c/main.c" -o "${program}"
      ${flags} "-L${CUDA_ROOT}/lib64" "-L${CUDA_ROOT}/lib" -lcudart "-Wl,-rpath,${prefix}/${LIBDIR}" ${CUDA_LINK})
  run_on_virtual_gpu(instant "${program}" "${WORK}/c_example.json")
  set(program "${WORK}/cxx_example_${name}")
  run("${COMPILER}" -std=c++20 -Wall -Wextra -Werror "-I${CUDA_ROOT}/include" "${EXAMPLES}/graph-capture/main.cpp"
      -o "${program}" ${flags} "-L${CUDA_ROOT}/lib64" "-L${CUDA_ROOT}/lib" -lcudart "-Wl,-rpath,${prefix}/${LIBDIR}"
      ${CUDA_LINK})
  run_on_virtual_gpu(adversarial:1,memory=4GiB "${program}")
endforeach()

# RMM's headers from its wheel, with their CCCL. RMM's library has its own CUDA runtime, which needs
# a GPU. So the example is only linked with it and does not run.
if(EXISTS "${RMM}/librmm/lib64/librmm.so")
  execute_process(COMMAND pkg-config --cflags --libs millrace OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run("${COMPILER}" -std=c++20 -w -DCCCL_DISABLE_PDL -isystem "${RMM}/librmm/include" -isystem
      "${RMM}/librmm/include/rapids" -isystem "${RMM}/rapids_logger/include" -isystem "${CUDA_ROOT}/include"
      "${EXAMPLES}/rmm/main.cpp" -o "${WORK}/rmm_example" ${flags} "-L${RMM}/librmm/lib64" -lrmm
      "-L${RMM}/rapids_logger/lib64" -lrapids_logger "-L${CUDA_ROOT}/lib64" "-L${CUDA_ROOT}/lib" -lcudart ${CUDA_LINK})
else()
  message(STATUS "No wheels of RMM in ${RMM}: its example is not built")
endif()

# The pages must have the figures that the programs print.
run_on_virtual_gpu(h200,memory=16GiB "${WORK}/build/training_loop_before")
set(before "${printed}")
run_on_virtual_gpu(h200,memory=16GiB "${WORK}/build/training_loop_after")
foreach(file "${EXAMPLES}/training-loop.md" "${EXAMPLES}/../../README.md")
  file(READ "${file}" page)
  foreach(line IN ITEMS "${before}" "${printed}")
    string(REGEX MATCH "GPU memory at most ([0-9]+) MiB" found "${line}")
    string(FIND "${page}" "${CMAKE_MATCH_1} MiB" place)
    if(found STREQUAL "" OR place EQUAL -1)
      message(FATAL_ERROR "${file} does not have the figure of: ${line}")
    endif()
  endforeach()
endforeach()
