# Headers of the CUDA runtime (MILLRACE_CUDA_INCLUDE_DIR) and of CCCL (MILLRACE_CCCL_INCLUDE_DIR),
# for targets that otherwise need no toolkit. If they are not found, these targets are left out.
find_path(
  MILLRACE_CUDA_INCLUDE_DIR cuda_runtime_api.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda
  PATH_SUFFIXES include)
find_path(
  MILLRACE_CCCL_INCLUDE_DIR cub/util_allocator.cuh
  HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda
  PATH_SUFFIXES cccl include/cccl include)
mark_as_advanced(MILLRACE_CUDA_INCLUDE_DIR MILLRACE_CCCL_INCLUDE_DIR)
