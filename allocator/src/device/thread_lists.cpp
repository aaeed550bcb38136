#include "device/thread_lists.hpp"

namespace millrace {
namespace {

// Needs no destructor, so it can be read after the lists of the thread were destroyed.
thread_local bool are_there = true;

}  // namespace

ThreadLists::~ThreadLists() { are_there = false; }

ThreadLists* ThreadLists::of_this_thread() {
  if (!are_there) [[unlikely]]
    return nullptr;
  thread_local ThreadLists lists;
  return &lists;
}

}  // namespace millrace
