#pragma once

#include <string>

#include "millrace/observe/trace/limits.hpp"
#include "millrace/observe/trace/value_tree.hpp"

namespace millrace::trace {

/**
 * @brief Reads a Python pickle of plain data: dicts, lists, tuples, strings, bytes, integers within
 *        64 bits, floats, booleans and None, in protocol 2, 3, 4 or 5.
 *
 * The reader never imports, calls or builds anything: opcodes that would do so (GLOBAL, REDUCE,
 * BUILD, ...) are errors, as are sets, objects that contain themselves, and everything that
 * `limits` forbids. Memory is proportional to the real length of the pickle, not to claimed
 * lengths. The reader does not use recursion.
 *
 * @param bytes   the whole file; bytes after the first pickle are ignored
 * @param source  name of the file, for messages
 * @throws ParseError with the opcode and its byte offset
 */
[[nodiscard]] ValueTree read_pickle(std::string bytes, const std::string& source,
                                    const TraceLimits& limits = {});

}  // namespace millrace::trace
