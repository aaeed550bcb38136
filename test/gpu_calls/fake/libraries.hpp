#pragma once

#include "collective/nccl/api.hpp"

namespace millrace::test::fake {

/// What the handle of a communicator points to. Never freed.
struct Communicator {
  int number;  ///< counted from 1
  int device;
  bool gone;  ///< destroyed or aborted
};

}  // namespace millrace::test::fake
