#include "interop/debug_settings.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace millrace {

DebugSettings DebugSettings::parse(std::string_view list) {
  DebugSettings settings;
  while (!list.empty()) {
    std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(item.size() == list.size() ? item.size() : item.size() + 1);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (item.empty()) continue;
    if (item == "tools") {
      settings.notify_tools = true;
    } else if (item == "poison") {
      settings.poison = true;
    } else {
      throw std::invalid_argument{"MILLRACE_DEBUG: '" + std::string{item} +
                                  "' is not known; it is a list of: tools, poison"};
    }
  }
  return settings;
}

DebugSettings DebugSettings::of_environment() {
  const char* const list = std::getenv("MILLRACE_DEBUG");
  return list == nullptr ? DebugSettings{} : parse(list);
}

}  // namespace millrace
