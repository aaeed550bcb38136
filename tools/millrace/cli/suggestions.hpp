#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::cli {

/** @brief `right`, followed by "(did you mean …?)" if one of the known names is near. */
[[nodiscard]] std::string did_you_mean(std::string_view name, const std::vector<std::string>& known,
                                       const std::string& right);
/** @brief The same for names that stand for others. @param known  each with the name to suggest */
[[nodiscard]] std::string did_you_mean(std::string_view name,
                                       const std::map<std::string, std::string>& known,
                                       const std::string& right);

}  // namespace millrace::cli
