# Each component of the installation finds its own dependencies and names those that are missing.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

# Options that hide a package from the project.
set(without_blas -DCMAKE_DISABLE_FIND_PACKAGE_BLAS=TRUE)
set(without_zlib -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=TRUE)
set(without_fmt -DCMAKE_DISABLE_FIND_PACKAGE_fmt=TRUE)
set(without_json -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=TRUE)

# The allocator alone: installed alone, and found without the packages that only the others need.
run("${CMAKE_COMMAND}" --install "${BUILD}" --config "${CONFIG}" --prefix "${prefix}" --component
    allocator)
if(EXISTS "${prefix}/include/millrace/pipeline" OR EXISTS "${prefix}/bin/millrace")
  message(FATAL_ERROR "more than the allocator was installed")
endif()
configure(allocator_only -DCOMPONENTS=allocator ${without_blas} ${without_json} ${without_zlib} ${without_fmt})
expect(TRUE)
run("${CMAKE_COMMAND}" --build "${WORK}/build")
run("${WORK}/build/allocator_only")
configure(allocator_only ${without_blas} ${without_json})
expect(TRUE "component pipeline lacks its files, which are not installed")
configure(allocator_only -DCOMPONENTS=pipeline)
expect(FALSE "component pipeline lacks its files, which are not installed")
configure(allocator_only -DCOMPONENTS=shared)
expect(FALSE "component shared lacks")

# All components.
run("${CMAKE_COMMAND}" --install "${BUILD}" --config "${CONFIG}" --prefix "${prefix}")
configure(allocator_only ${without_blas})
expect(TRUE "component pipeline lacks BLAS (Debian: libopenblas-dev)" "component streamer lacks BLAS")
configure(allocator_only -DCOMPONENTS=pipeline ${without_blas})
expect(FALSE "component pipeline lacks BLAS (Debian: libopenblas-dev)")
configure(allocator_only -DCOMPONENTS=streamer)
expect(TRUE)
configure(allocator_only -DCOMPONENTS=pipeline ${without_zlib})
expect(FALSE "component pipeline lacks ZLIB (Debian: zlib1g-dev)")
configure(allocator_only -DCOMPONENTS=alocator)
expect(FALSE "there is no component alocator: shared, allocator, pipeline, streamer")
