#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

namespace millrace::virtual_cuda {

/**
 * @brief Says from where the program made the call of CUDA that is under way.
 *
 * Looks at the stack on request, so that calls cost nothing otherwise.
 */
class Sites {
 public:
  struct Call {
    std::string
        function;       ///< of CUDA; empty where the program's file has no names (static runtime)
    std::string place;  ///< "app+0x1234", as addr2line takes it; "?" if the stack does not say
  };

  [[nodiscard]] Call current();

 private:
  struct Frame {
    bool ours = false;
    std::string symbol;
    std::string place;
  };

  [[nodiscard]] const Frame& frame(std::uintptr_t address);

  std::unordered_map<std::uintptr_t, Frame> frames_;
};

}  // namespace millrace::virtual_cuda
