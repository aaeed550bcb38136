// Prints the number of GPUs of the runtime that it is linked with, and of the one that it opens by
// path.
#include <dlfcn.h>

#include <cstdio>

extern "C" int cudaGetDeviceCount(int* count);

int main(int, char** argv) {
  int linked = 0;
  int opened = 0;
  cudaGetDeviceCount(&linked);
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 1;
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(library, "cudaGetDeviceCount"));
  if (count == nullptr) return 1;
  count(&opened);
  std::printf("%d %d\n", linked, opened);
}
