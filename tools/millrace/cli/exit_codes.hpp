#pragma once

namespace millrace::cli {

// Beside kFailed (cli/error.hpp), each where all was done that was asked for.
inline constexpr int kUndelivered = 3;  ///< a sink of the stream lacks something
inline constexpr int kRaced = 4;        ///< the checker found a race in the program

}  // namespace millrace::cli
