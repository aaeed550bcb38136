include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

run("${CMAKE_COMMAND}" --install "${BUILD}" --config "${CONFIG}" --prefix "${prefix}")
configure(consumer)
expect(TRUE)
run("${CMAKE_COMMAND}" --build "${WORK}/build")
run("${WORK}/build/consumer")
