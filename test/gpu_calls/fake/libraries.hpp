#pragma once

#include "collective/nccl/api.hpp"

namespace millrace::test::fake {

/// The object of a communicator's handle. It is never freed.
struct Communicator {
  int number;  ///< counted from 1
  int device;
  bool gone;  ///< destroyed or aborted
};

}  // namespace millrace::test::fake
