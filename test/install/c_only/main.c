/* A C program without CUDA: it gets memory, or the reason why not. */
#include <millrace.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  int here = 0;
  void* memory = millrace_malloc(1000, 0, NULL);
  printf("millrace %s\n", millrace_version());
  millrace_free(&here, 0, 0, NULL);
  if (millrace_last_status() != MILLRACE_INVALID_ARGUMENT) return 1;
  if (memory != NULL) return millrace_free_owned(memory, 0) == MILLRACE_OK ? 0 : 1;
  memory = millrace_malloc(1000, 0, NULL);
  printf("%s\n", millrace_last_error());
  return memory == NULL && millrace_last_status() == MILLRACE_NOT_SUPPORTED &&
                 strlen(millrace_last_error()) > 0
             ? 0
             : 1;
}
