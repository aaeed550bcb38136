#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "millrace/observe/trace/stacks.hpp"

namespace millrace {

/**
 * @brief Names of the functions of this process: those that a library exports, and those in the
 *        symbol table of its file, if it has one.
 */
class Symbols {
 public:
  /** @brief The function that `pc` lies in, with the file of its library; "+0x1f0", the place in
   *         the file's memory image, if it has no name. Lines are not known. */
  [[nodiscard]] trace::StackFrame frame_of(std::uintptr_t pc);

 private:
  struct Symbol {
    std::uintptr_t begin = 0;  ///< as the file has it
    std::uintptr_t end = 0;
    std::size_t name = 0;  ///< where it begins in the table's names
  };
  /** The functions of one file, by address. */
  struct Table {
    bool moves = true;  ///< addresses are from where the file is loaded
    std::vector<Symbol> symbols;
    std::vector<char> names;
  };

  static Table read(const std::string& file);

  std::map<std::string, Table> tables_;  // by file
};

}  // namespace millrace
