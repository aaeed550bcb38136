# Sinks of the streamer that need a client library. The file client.cmake in the folder of a sink
# (streamer/src/sink/NAME) names the library; everything about it is derived from that file:
#
#   MILLRACE_HAS_NAME          1 if the sink is built, else 0
#   MILLRACE_SINKS             sinks that are built
#   MILLRACE_ABSENT_SINKS      sinks that are not: millrace_sources leaves out folders of this name
#   MILLRACE_SINK_CLIENTS      clients to link, as millrace_client::CLIENT
#   MILLRACE_SINK_DEFINITIONS  definitions for the streamer's sources: MILLRACE_HAS_NAME, MILLRACE_PACKAGE_NAME
#   MILLRACE_FIND_CLIENTS      calls for the installed package, which finds the same clients again
#
# tools/install-deps.sh reads the Debian packages from the same files.
include(MillraceClients)
foreach(list SINKS ABSENT_SINKS SINK_CLIENTS SINK_DEFINITIONS FIND_CLIENTS)
  set(MILLRACE_${list} "")
endforeach()

# Records the data of a client for the streamer and the installed package. Sets MILLRACE_HAS_NAME.
macro(_millrace_note_client name)
  string(TOUPPER ${name} upper)
  set(MILLRACE_HAS_${upper} 0)
  if(TARGET millrace_client::${name})
    set(MILLRACE_HAS_${upper} 1)
    list(APPEND MILLRACE_SINK_CLIENTS ${name})
    list(JOIN arg_LIBRARIES " " libraries)
    string(APPEND MILLRACE_FIND_CLIENTS
           "    _millrace_need_client(${arg_PACKAGE} ${name} ${arg_HEADER} ${libraries})\n")
  endif()
  list(APPEND MILLRACE_SINK_DEFINITIONS MILLRACE_HAS_${upper}=${MILLRACE_HAS_${upper}}
       "MILLRACE_PACKAGE_${upper}=\"${arg_PACKAGE}\"")
endmacro()

# millrace_sink(NAME HEADER header LIBRARIES library... PACKAGE package): a sink with its client
# library and the Debian package of that library. Users choose with MILLRACE_NAME.
macro(millrace_sink name)
  cmake_parse_arguments(arg "" "HEADER;PACKAGE" "LIBRARIES" ${ARGN})
  string(TOUPPER ${name} upper)
  set(MILLRACE_${upper} AUTO CACHE STRING "Build the sink ${name}: AUTO (when its library is found), ON or OFF")
  set_property(CACHE MILLRACE_${upper} PROPERTY STRINGS AUTO ON OFF)
  if(NOT MILLRACE_${upper} STREQUAL OFF)
    millrace_find_client(${name} ${arg_HEADER} ${arg_LIBRARIES})
  endif()
  _millrace_note_client(${name})
  if(MILLRACE_HAS_${upper})
    list(APPEND MILLRACE_SINKS ${name})
  else()
    list(APPEND MILLRACE_ABSENT_SINKS ${name})
    if(MILLRACE_${upper} STREQUAL ON)
      message(FATAL_ERROR "MILLRACE_${upper} is ON, and its library is not found (Debian: ${arg_PACKAGE})")
    elseif(MILLRACE_${upper} STREQUAL AUTO)
      message(STATUS "No library of ${name}: that sink is left out (Debian: ${arg_PACKAGE})")
    endif()
  endif()
endmacro()

# millrace_sink_feature(SINK NAME HEADER header LIBRARIES library... PACKAGE package): an optional
# additional client of SINK. Call it after millrace_sink(SINK ...).
macro(millrace_sink_feature sink name)
  cmake_parse_arguments(arg "" "HEADER;PACKAGE" "LIBRARIES" ${ARGN})
  if("${sink}" IN_LIST MILLRACE_SINKS)
    millrace_find_client(${name} ${arg_HEADER} ${arg_LIBRARIES})
    if(NOT TARGET millrace_client::${name})
      message(STATUS "No library of ${name}: the sink ${sink} is built without it (Debian: ${arg_PACKAGE})")
    endif()
  endif()
  _millrace_note_client(${name})
endmacro()

file(GLOB clients CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/streamer/src/sink/*/client.cmake")
foreach(client IN LISTS clients)
  include("${client}")
endforeach()
