#pragma once

#include <cuda_runtime_api.h>

namespace millrace::cuda {

/**
 * @file
 * How a host thread waits for the device. The runtime's own waits spin until the end, a core for
 * each thread that waits: a copier waits most of its life, and the cores are the data loader's.
 * These spin for as long as a sleeping thread takes to be woken, so that a short wait is as quick
 * as the runtime's, and then sleep.
 *
 * A wait always ends in a synchronization of the runtime, also where a query has said that nothing
 * is left to wait for: the driver's pool gives memory back at synchronizations (its release
 * threshold), and a trim counts what was freed as in use until one has seen the free complete.
 */

/** @param event  made with cudaEventBlockingSync, or its wait spins */
void wait_for(cudaEvent_t event);

/** @brief Waits for what is enqueued on the stream by now. Of the legacy stream it spins. */
void wait_for(cudaStream_t stream);

}  // namespace millrace::cuda
