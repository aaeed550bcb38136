#pragma once

#include <string>

namespace millrace {

/**
 * @brief A shared library that the loader finds by its rules. It stays loaded until the process
 *        ends.
 */
class SharedLibrary {
 public:
  explicit SharedLibrary(const char* name);

  [[nodiscard]] bool loaded() const noexcept { return handle_ != nullptr; }
  [[nodiscard]] std::string problem() const { return problem_; }  ///< "" if it is loaded
  [[nodiscard]] std::string path() const;  ///< path of the file with links resolved; "" if unknown

  /** @return nullptr if the library does not have the function */
  template <typename Function>
  [[nodiscard]] Function* find(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  [[nodiscard]] void* symbol(const char* name) const;

  void* handle_;
  std::string problem_;
};

}  // namespace millrace
