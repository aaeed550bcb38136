# Finds the client libraries of the streamer's sinks by header and library, because their own CMake
# files differ between versions. This file is also installed: projects that link a static
# millrace::streamer need the clients.

# millrace_find_client(NAME HEADER LIBRARY...): makes the target millrace_client::NAME if the header and all
# libraries are found.
function(millrace_find_client name header)
  string(TOUPPER ${name} upper)
  find_path(MILLRACE_${upper}_INCLUDE_DIR ${header})
  mark_as_advanced(MILLRACE_${upper}_INCLUDE_DIR)
  set(found "${MILLRACE_${upper}_INCLUDE_DIR}")
  set(files "")
  foreach(library ${ARGN})
    string(TOUPPER "MILLRACE_${name}_LIBRARY_${library}" variable)
    find_library(${variable} ${library})
    mark_as_advanced(${variable})
    if(NOT ${variable})
      set(found FALSE)
    endif()
    list(APPEND files "${${variable}}")
  endforeach()
  if(TARGET millrace_client::${name} OR NOT found)
    return()
  endif()
  list(POP_FRONT files first)
  add_library(millrace_client::${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(
    millrace_client::${name}
    PROPERTIES IMPORTED_LOCATION "${first}"
               INTERFACE_LINK_LIBRARIES "${files}"
               INTERFACE_INCLUDE_DIRECTORIES "${MILLRACE_${upper}_INCLUDE_DIR}")
endfunction()
