# The build folder may be a symbolic link to another folder. Files that are generated there must
# find the sources.
include("${SOURCE}/../../cmake/MillraceTargets.cmake")
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}/project/src" "${WORK}/elsewhere/deep/build/unity")
file(TOUCH "${WORK}/project/src/kernel.cu")
file(CREATE_LINK "${WORK}/elsewhere/deep/build" "${WORK}/project/build" SYMBOLIC)
_millrace_relative_path(path "${WORK}/project/build/unity" "${WORK}/project/src/kernel.cu")
execute_process(COMMAND test -f "${WORK}/project/build/unity/${path}" RESULT_VARIABLE code)
if(IS_ABSOLUTE "${path}" OR NOT code EQUAL 0)
  message(FATAL_ERROR "project/build/unity/${path} is not project/src/kernel.cu")
endif()
