#pragma once

namespace millrace::test {

/// A log of RMM with a request that failed.
inline constexpr const char* kFailingRmmLog =
    "Thread,Time,Action,Pointer,Size,Stream\n"
    "1,00:00:00:000001,allocate,0x7f00,4096,0x10\n"
    "1,00:00:00:000002,allocate failure,0x0,99999999,0x10\n"
    "1,00:00:00:000003,free,0x7f00,4096,0x10\n";

}  // namespace millrace::test
