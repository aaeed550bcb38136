/* Millrace from C: two streams, a recorded use, statistics and a snapshot. */
#include <cuda_runtime_api.h>
#include <millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_cuda(cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s\n", cudaGetErrorString(error));
  exit(1);
}

static void check(millrace_status status) {
  if (status == MILLRACE_OK) return;
  fprintf(stderr, "%s\n", millrace_last_error());
  exit(1);
}

int main(int argc, char** argv) {
  const size_t bytes = 1 << 20;
  const int device = 0;
  cudaStream_t copy, compute;
  cudaEvent_t copied;
  unsigned char* host;
  size_t i, wrong = 0;
  int step;
  millrace_statistics statistics;

  check_cuda(cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking));
  check_cuda(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
  check_cuda(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
  check_cuda(cudaHostAlloc((void**)&host, 2 * bytes, cudaHostAllocDefault));

  for (step = 0; step < 10; ++step) {
    void* batch = millrace_malloc((ssize_t)bytes, device, copy);
    if (batch == NULL) {
      fprintf(stderr, "%s\n", millrace_last_error());
      return 1;
    }
    memset(host, step + 1, bytes);
    check_cuda(cudaMemcpyAsync(batch, host, bytes, cudaMemcpyHostToDevice, copy));
    check_cuda(cudaEventRecord(copied, copy));
    check_cuda(cudaStreamWaitEvent(compute, copied, 0));
    check(millrace_record_stream(batch, device, compute)); /* it uses the batch, too */
    check_cuda(cudaMemcpyAsync(host + bytes, batch, bytes, cudaMemcpyDeviceToHost, compute));
    millrace_free(batch, (ssize_t)bytes, device, copy);
    check_cuda(cudaStreamSynchronize(compute));
    for (i = 0; i < bytes; ++i) wrong += host[bytes + i] != step + 1;
  }

  statistics.struct_bytes = sizeof statistics;
  check(millrace_get_statistics(device, &statistics));
  printf("%zu bytes wrong; %llu allocations, %llu of them with new memory\n", wrong,
         (unsigned long long)statistics.allocations, (unsigned long long)statistics.served_grown);
  if (argc > 1) check(millrace_snapshot(device, argv[1]));

  check_cuda(cudaStreamDestroy(copy));
  check_cuda(cudaStreamDestroy(compute));
  return wrong == 0 ? 0 : 1;
}
