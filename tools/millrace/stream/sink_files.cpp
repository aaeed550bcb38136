#include "stream/sink_files.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "millrace/streamer/sink_kinds.hpp"

namespace millrace::cli {
namespace {

bool names_file(std::string_view setting) {
  constexpr std::array<std::string_view, 3> names{"ca", "cert", "key"};
  return std::ranges::find(names, setting) != names.end() || setting.ends_with("-file") ||
         setting.ends_with(".location");
}

std::vector<UsedPath> files_of_settings(std::string_view settings) {
  std::vector<UsedPath> files;
  while (!settings.empty()) {
    const std::string_view setting = settings.substr(0, settings.find('&'));
    settings.remove_prefix(std::min(settings.size(), setting.size() + 1));
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos || equals + 1 == setting.size()) continue;
    if (!names_file(setting.substr(0, equals))) continue;
    files.push_back({.path = setting.substr(equals + 1), .only_read = true});
  }
  return files;
}

}  // namespace

std::vector<UsedPath> sink_files(const std::string& spec) {
  const SinkKind* kind = find_sink_kind(spec);
  const std::size_t mark =
      kind == nullptr || kind->has_settings ? spec.find('?') : std::string::npos;
  if (kind != nullptr && kind->is_folder) {
    std::string folder = spec.substr(0, mark).substr(kind->prefix_of(spec).size());
    if (!folder.empty()) return {{.path = std::move(folder), .folder = true}};
  }
  return mark == std::string::npos ? std::vector<UsedPath>{}
                                   : files_of_settings(std::string_view{spec}.substr(mark + 1));
}

}  // namespace millrace::cli
