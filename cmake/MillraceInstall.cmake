# Installs the CMake package `millrace`: find_package(millrace) gives millrace::allocator,
# millrace::pipeline and millrace::streamer.
#
# Each library is a component of the installation by its name; it needs those that it is built on to
# be installed, too. The package's own files go with `allocator`, which all need. `program` is the
# program.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/millrace")
set(MILLRACE_STATIC TRUE)
foreach(component allocator pipeline streamer)
  if(NOT TARGET millrace_${component})
    continue()
  endif()
  install(
    EXPORT millrace-${component}-targets
    NAMESPACE millrace::
    DESTINATION "${package_dir}"
    COMPONENT ${component})
  get_target_property(type millrace_${component} TYPE)
  if(NOT type STREQUAL STATIC_LIBRARY)
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
