#pragma once

#include <string_view>

namespace millrace {

/** @brief The checks of its memory use that a program asked for (MILLRACE_DEBUG). */
struct DebugSettings {
  bool notify_tools = false;
  bool poison = false;

  /**
   * @brief Parses a list such as "tools,poison". Spaces and empty items are ignored.
   * @throws std::invalid_argument if an item is unknown; the message lists the known ones
   */
  [[nodiscard]] static DebugSettings parse(std::string_view list);
  /** @brief Parses the environment variable MILLRACE_DEBUG. @throws like parse */
  [[nodiscard]] static DebugSettings of_environment();
};

}  // namespace millrace
