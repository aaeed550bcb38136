#pragma once

#include <string>

#include "millrace/observe/trace/limits.hpp"
#include "millrace/observe/trace/value_tree.hpp"

namespace millrace::trace {

/**
 * @brief Reads a Python pickle that holds plain data: dicts, lists, tuples, strings, bytes,
 * integers within 64 bits, floats, booleans and None, in protocol 2, 3, 4 or 5.
 *
 * Nothing is ever imported, called or built: opcodes that ask for it (GLOBAL, REDUCE, BUILD, ...)
 * end the reading, as do sets, objects that contain themselves, and all that `limits` forbids.
 * Memory is proportional to the length of the pickle, whatever it says its lengths are; there is no
 * recursion.
 *
 * @param bytes   the whole file; what follows the first pickle in it is not looked at
 * @param source  its name, for messages
 * @throws ParseError with the opcode and the byte where it stands
 */
[[nodiscard]] ValueTree read_pickle(std::string bytes, const std::string& source,
                                    const TraceLimits& limits = {});

}  // namespace millrace::trace
