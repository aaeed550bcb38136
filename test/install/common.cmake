set(prefix "${WORK}/prefix")
file(REMOVE_RECURSE "${WORK}")

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# configure(PROJECT [OPTION...]): sets `configured` to whether it succeeded, and `said` to its
# output.
macro(configure project)
  file(REMOVE_RECURSE "${WORK}/build")
  execute_process(
    COMMAND
      "${CMAKE_COMMAND}" -S "${SOURCE}/${project}" -B "${WORK}/build" -G "${GENERATOR}"
      "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_BUILD_TYPE=${CONFIG}"
      ${ARGN}
    RESULT_VARIABLE configure_result
    OUTPUT_VARIABLE said
    ERROR_VARIABLE said)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  set(configured FALSE)
  if(configure_result EQUAL 0)
    set(configured TRUE)
  endif()
endmacro()

# expect(CONFIGURED TEXT...): checks the outcome of `configure`, and that its output has each text.
macro(expect outcome)
  if(NOT configured STREQUAL "${outcome}")
    message(FATAL_ERROR "expected to be configured: ${outcome}; it said: ${said}")
  endif()
  foreach(text ${ARGN})
    string(FIND "${said}" "${text}" place)
    if(place EQUAL -1)
      message(FATAL_ERROR "'${text}' is not in what it said: ${said}")
    endif()
  endforeach()
endmacro()
