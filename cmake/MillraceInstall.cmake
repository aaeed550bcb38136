# Installs the CMake package `millrace`: find_package(millrace) gives millrace::allocator,
# millrace::pipeline and millrace::streamer.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/millrace")
if(TARGET millrace_allocator)
  install(EXPORT millrace-targets NAMESPACE millrace:: DESTINATION "${package_dir}")
endif()
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/millrace-config.cmake.in"
                              "${PROJECT_BINARY_DIR}/millrace-config.cmake"
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/millrace-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/millrace-config.cmake"
              "${PROJECT_BINARY_DIR}/millrace-config-version.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/MillraceClients.cmake" DESTINATION "${package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
