# OpenBLAS: BLAS::BLAS, and MILLRACE_BLAS_INCLUDE_DIR with its cblas.h.
set(BLA_VENDOR OpenBLAS)
find_package(BLAS REQUIRED)
find_path(
  MILLRACE_BLAS_INCLUDE_DIR openblas_config.h
  PATH_SUFFIXES openblas openblas-pthread openblas-serial openblas-openmp REQUIRED)
mark_as_advanced(MILLRACE_BLAS_INCLUDE_DIR)
