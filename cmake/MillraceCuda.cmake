# Sets MILLRACE_HAS_CUDA (0 or 1). With 1, the language CUDA is enabled and CUDA::cudart exists. The
# driver's library is never linked: its functions are looked up at run time.

set(MILLRACE_HAS_CUDA 0)
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90)
endif()
if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER)
  set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)

# Sets OUT to the reason why COMPILER cannot build a C++20 program with the shared runtime, or to
# "". (check_language() would not try either of these.)
function(millrace_try_nvcc compiler out)
  set(folder "${PROJECT_BINARY_DIR}/CMakeFiles/try_nvcc")
  file(WRITE "${folder}/try.cu" "#include <cuda.h>
#include <concepts>
__global__ void kernel() {}
int main() { kernel<<<1, 1>>>(); return static_cast<int>(cudaDeviceSynchronize()); }
")
  execute_process(
    COMMAND "${compiler}" -std=c++20 -ccbin "${CMAKE_CUDA_HOST_COMPILER}" -cudart shared
            -gencode arch=compute_80,code=sm_80 -o "${folder}/try" "${folder}/try.cu"
    RESULT_VARIABLE code
    OUTPUT_FILE "${folder}/log"
    ERROR_FILE "${folder}/log")
  set(problem "")
  if(NOT code EQUAL 0)
    set(problem "${compiler} does not work here with ${CMAKE_CUDA_HOST_COMPILER} (see ${folder}/log)")
  endif()
  set(${out} "${problem}" PARENT_SCOPE)
endfunction()

# Sets `problem` to the reason why CUDA cannot be used. If CUDA can be used, sets it to "" and
# enables the language.
macro(millrace_enable_cuda)
  if(CMAKE_CUDA_COMPILER)
    set(MILLRACE_NVCC "${CMAKE_CUDA_COMPILER}")
  else()
    find_program(
      MILLRACE_NVCC "$ENV{CUDACXX}" nvcc
      HINTS "${CUDAToolkit_ROOT}" ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda
      PATH_SUFFIXES bin)
  endif()
  if(NOT MILLRACE_NVCC)
    set(problem "no nvcc found")
  elseif(NOT MILLRACE_WORKING_NVCC STREQUAL MILLRACE_NVCC)
    millrace_try_nvcc("${MILLRACE_NVCC}" problem)
  else()
    set(problem "")
  endif()
  if(NOT problem)
    set(MILLRACE_WORKING_NVCC "${MILLRACE_NVCC}" CACHE INTERNAL "The nvcc that was tried")
    set(CMAKE_CUDA_COMPILER "${MILLRACE_NVCC}")
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
  endif()
endmacro()

if(NOT MILLRACE_CUDA)
  message(NOTICE "-- CUDA: switched off; building everything but CudaDevice")
else()
  millrace_enable_cuda()
  if(NOT problem)
    set(MILLRACE_HAS_CUDA 1)
    message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}")
  elseif(MILLRACE_CUDA STREQUAL AUTO)
    message(NOTICE "-- CUDA: ${problem}; building everything but CudaDevice")
  else()
    message(FATAL_ERROR "CUDA: ${problem}")
  endif()
endif()
