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
 * @brief Says from where the program made the call of CUDA that is under way.
 *
 * Looks at the stack on request, so that calls cost nothing otherwise. Stacks are numbered from 1,
 * and equal ones have the same number. Functions are named when a report is written.
 */
class Sites {
 public:
  /** @brief Frames of the program that tell one stack from another. */
  static constexpr std::size_t kMostFrames = 12;

  struct Call {
    std::string
        function;       ///< of CUDA; empty where the program's file has no names (static runtime)
    std::string place;  ///< "app+0x1234 [1]": the place as addr2line takes it, and the stack's
                        ///< number; "?" if the stack does not say
  };

  [[nodiscard]] Call current();

  /**
   * @brief The stacks that a message refers to: a line for each frame, the innermost first.
   * @param message  with places as `current` gives them
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
