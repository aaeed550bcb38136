/* A program that loads libmillrace.so at run time, as a framework loads a pluggable allocator. */
#include <dlfcn.h>
#include <stdio.h>
#include <sys/types.h>

typedef void* (*malloc_function)(ssize_t, int, void*);
typedef void (*free_function)(void*, ssize_t, int, void*);

static void* symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) fprintf(stderr, "no %s: %s\n", name, dlerror());
  return found;
}

int main(int argc, char** argv) {
  int round;
  for (round = 0; round < 3; ++round) {
    void* library = dlopen(argc > 1 ? argv[1] : "libmillrace.so.0.1", RTLD_NOW | RTLD_LOCAL);
    malloc_function allocate;
    free_function release;
    void* memory;
    if (library == NULL) {
      fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    *(void**)&allocate = symbol(library, "millrace_malloc");
    *(void**)&release = symbol(library, "millrace_free");
    if (allocate == NULL || release == NULL) return 1;
    memory = allocate(1 << 20, 0, NULL);
    printf("%s\n", memory == NULL ? "no memory" : "memory");
    release(memory, 1 << 20, 0, NULL);
    release(&round, 4, 0, NULL); /* foreign */
    if (dlclose(library) != 0) return 1;
  }
  return 0;
}
