# Runs programs on the virtual CUDA runtime in the folder VIRTUAL, which is "" if there is none.

# run_on_virtual_gpu(SCHEDULE PROGRAM [ARGUMENT...]): sets `printed`.
function(run_on_virtual_gpu schedule)
  set(environment "MILLRACE_VIRTUAL=${schedule}")
  if(VIRTUAL)
    list(APPEND environment "LD_LIBRARY_PATH=${VIRTUAL}")
  endif()
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env ${environment} ${ARGN}
    OUTPUT_VARIABLE output
    RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN} ended with ${code} under ${schedule}: ${output}")
  endif()
  set(printed "${output}" PARENT_SCOPE)
endfunction()

# run_examples(FOLDER): runs the programs in FOLDER under schedules that reveal missing waits.
function(run_examples folder)
  foreach(schedule instant,memory=4GiB adversarial:1,memory=4GiB adversarial:2,memory=4GiB)
    run_on_virtual_gpu(${schedule} "${folder}/c_program" "${folder}/snapshot.json")
    run_on_virtual_gpu(${schedule} "${folder}/threaded_server")
    run_on_virtual_gpu(${schedule} "${folder}/graph_capture")
    foreach(program cuda_mr thrust) # need CCCL 3.0, nvcc
      if(EXISTS "${folder}/${program}")
        run_on_virtual_gpu(${schedule} "${folder}/${program}")
      endif()
    endforeach()
  endforeach()
  run_on_virtual_gpu(instant,memory=4GiB "${folder}/training_loop_after")
endfunction()
