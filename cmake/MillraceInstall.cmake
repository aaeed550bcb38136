# Installs the CMake package `millrace`: find_package(millrace) gives millrace::allocator,
# millrace::pipeline and millrace::streamer.
#
# Each library is a component of the installation with its own name. The libraries that it needs
# must also be installed. The files of the package and of pkg-config belong to `allocator`, which
# all others need. `shared` is libmillrace.so for running programs. `program` is the program.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/millrace")
set(MILLRACE_STATIC TRUE)
foreach(component shared allocator pipeline streamer)
  if(NOT TARGET millrace_${component})
    continue()
  endif()
  set(with ${component})
  if(component STREQUAL shared) # programs that link it also need its headers
    set(with allocator)
  endif()
  install(
    EXPORT millrace-${component}-targets
    NAMESPACE millrace::
    DESTINATION "${package_dir}"
    COMPONENT ${with})
  get_target_property(type millrace_${component} TYPE)
  if(NOT component STREQUAL shared AND NOT type STREQUAL STATIC_LIBRARY)
    set(MILLRACE_STATIC FALSE)
  endif()
endforeach()
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/millrace-config.cmake.in"
                              "${PROJECT_BINARY_DIR}/millrace-config.cmake"
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/millrace-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(
  FILES "${PROJECT_BINARY_DIR}/millrace-config.cmake"
        "${PROJECT_BINARY_DIR}/millrace-config-version.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/MillraceClients.cmake"
  DESTINATION "${package_dir}"
  COMPONENT allocator)
install(
  FILES "${PROJECT_SOURCE_DIR}/LICENSE"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  COMPONENT allocator)

# pkg-config: `millrace` is the shared library, `millrace-static` the static one. The prefix is
# relative to the .pc file, because an installation may be moved.
string(REGEX REPLACE "[^/]+" ".." up "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
set(MILLRACE_PC_PREFIX "\${pcfiledir}/${up}")
set(MILLRACE_PC_LIBRARY millrace)
if(BUILD_SHARED_LIBS)
  set(MILLRACE_PC_LIBRARY millrace_allocator)
endif()
set(pc_cuda "")
if(MILLRACE_HAS_CUDA)
  set(pc_cuda " -L${CUDAToolkit_LIBRARY_DIR} -lcudart")
endif()
foreach(name millrace millrace-static)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
endforeach()
if(TARGET millrace_shared OR BUILD_SHARED_LIBS)
  install(FILES "${PROJECT_BINARY_DIR}/millrace.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT allocator)
endif()
if(MILLRACE_STATIC)
  install(FILES "${PROJECT_BINARY_DIR}/millrace-static.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
          COMPONENT allocator)
endif()
