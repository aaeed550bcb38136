#pragma once

#include <cuda_runtime_api.h>

namespace millrace::cuda {

/**
 * @file
 * How a host thread waits for the device. The runtime's own waits spin until the end and
 * occupy one core for each waiting thread. A copier thread waits most of the time, and the data
 * loader needs the cores. The waits here spin for about the time that waking a thread takes, so
 * that a short wait is as fast as the runtime's, and then sleep.
 *
 * A wait always ends with a synchronization of the runtime, even if a query found the work
 * complete. The driver's pool gives memory back at synchronizations (its release threshold), and
 * its trim counts freed memory as used until a synchronization has seen the free complete.
 */

/**
 * @brief Waits for the event.
 * @param event  made with cudaEventBlockingSync; otherwise its wait spins
 */
void wait_for(cudaEvent_t event);

/** @brief Waits for the work enqueued on the stream so far. For the legacy stream it spins. */
void wait_for(cudaStream_t stream);

}  // namespace millrace::cuda
