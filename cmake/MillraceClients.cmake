# The libraries behind sinks of the streamer, found by header and library: what they bring for CMake
# differs from one version to the next. Installed too, since who links millrace::streamer needs them.

# millrace_find_client(NAME HEADER LIBRARY): the target millrace_client::NAME, where both are there.
function(millrace_find_client name header library)
  string(TOUPPER ${name} upper)
  find_path(MILLRACE_${upper}_INCLUDE_DIR ${header})
  find_library(MILLRACE_${upper}_LIBRARY ${library})
  mark_as_advanced(MILLRACE_${upper}_INCLUDE_DIR MILLRACE_${upper}_LIBRARY)
  if(TARGET millrace_client::${name} OR NOT MILLRACE_${upper}_INCLUDE_DIR OR NOT MILLRACE_${upper}_LIBRARY)
    return()
  endif()
  add_library(millrace_client::${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(
    millrace_client::${name}
    PROPERTIES IMPORTED_LOCATION "${MILLRACE_${upper}_LIBRARY}"
               INTERFACE_INCLUDE_DIRECTORIES "${MILLRACE_${upper}_INCLUDE_DIR}")
endfunction()

# millrace_find_sink_client(NAME): that of a sink.
macro(millrace_find_sink_client name)
  if("${name}" STREQUAL "rocksdb")
    millrace_find_client(rocksdb rocksdb/db.h rocksdb)
  elseif("${name}" STREQUAL "redis")
    millrace_find_client(redis hiredis/hiredis.h hiredis)
  elseif("${name}" STREQUAL "tls")
    millrace_find_client(tls openssl/ssl.h ssl)
    millrace_find_client(crypto openssl/crypto.h crypto)
    if(TARGET millrace_client::tls AND TARGET millrace_client::crypto)
      set_property(TARGET millrace_client::tls PROPERTY INTERFACE_LINK_LIBRARIES millrace_client::crypto)
    endif()
  elseif("${name}" STREQUAL "kafka")
    millrace_find_client(kafka librdkafka/rdkafka.h rdkafka)
  endif()
endmacro()
