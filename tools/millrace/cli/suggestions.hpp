#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::cli {

/** @brief `right`, followed by "(did you mean …?)" if a known name is similar. */
[[nodiscard]] std::string did_you_mean(std::string_view name, const std::vector<std::string>& known,
                                       const std::string& right);
/** @brief The same with aliases. @param known  maps each alias to the name to suggest */
[[nodiscard]] std::string did_you_mean(std::string_view name,
                                       const std::map<std::string, std::string>& known,
                                       const std::string& right);

}  // namespace millrace::cli
