# The allocator alone, as a part of another project (FetchContent). It is not optimized, because
# that takes most of the time.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/examples.cmake")
find_program(ccache ccache)
if(ccache)
  list(APPEND launch "-DCMAKE_CXX_COMPILER_LAUNCHER=${ccache}")
endif()
configure(fetch "-DFETCHCONTENT_SOURCE_DIR_MILLRACE=${SOURCE}/../.." "-DEXAMPLES=${EXAMPLES}" ${launch}
          -DCMAKE_BUILD_TYPE=None -DCMAKE_DISABLE_FIND_PACKAGE_BLAS=TRUE -DCMAKE_DISABLE_FIND_PACKAGE_MPI=TRUE "-DCUDAToolkit_ROOT=${CUDA_ROOT}"
          -DMILLRACE_EXAMPLE_THRUST=OFF)
expect(TRUE)
run("${CMAKE_COMMAND}" --build "${WORK}/build" --parallel 2)
run_on_virtual_gpu(instant,memory=4GiB "${WORK}/build/c_only")
if(EXAMPLES)
  run_examples("${WORK}/build/examples")
endif()
