#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "millrace/observe/symbols.hpp"

namespace millrace::virtual_cuda {

/**
 * @brief Finds the place where the program made the current call of CUDA.
 *
 * It walks the stack only on request, so that other calls cost nothing. Stacks are numbered from 1.
 * Equal stacks have the same number. Functions are named when a report is written.
 */
class Sites {
 public:
  /** @brief Number of program frames that distinguish stacks. */
  static constexpr std::size_t kMostFrames = 12;

  struct Call {
    std::string function;  ///< of CUDA; empty if the file has no symbol for it (static runtime)
    std::string place;     ///< "app+0x1234 [1]": a place for addr2line and the stack's number;
                           ///< "?" if it is not known
  };

  [[nodiscard]] Call current();

  /**
   * @brief The stacks that a message refers to: one line for each frame, the innermost frame first.
   * @param message  contains places from `current`
   */
  [[nodiscard]] std::string stacks_of(std::string_view message);

 private:
  struct Frame {
    bool ours = false;
    std::string symbol;
    std::string place;
  };
  using Stack = std::vector<std::uintptr_t>;

  [[nodiscard]] const Frame& frame(std::uintptr_t address);
  [[nodiscard]] std::string lines_of(std::size_t number);

  std::unordered_map<std::uintptr_t, Frame> frames_;
  std::map<Stack, std::size_t> numbers_;
  std::vector<const Stack*> stacks_;  // by number - 1; keys of `numbers_`
  Symbols symbols_;
};

}  // namespace millrace::virtual_cuda
