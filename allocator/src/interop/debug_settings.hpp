#pragma once

#include <string_view>

namespace millrace {

/** @brief What a program asked for to find errors in its use of memory. */
struct DebugSettings {
  bool tell_tools = false;
  bool poison = false;

  /**
   * @brief Parses a list such as "tools,poison"; spaces and empty items do nothing.
   * @throws std::invalid_argument that names the item and says what is known
   */
  [[nodiscard]] static DebugSettings parse(std::string_view list);
  /** @brief Of the variable MILLRACE_DEBUG. @throws as parse */
  [[nodiscard]] static DebugSettings of_environment();
};

}  // namespace millrace
