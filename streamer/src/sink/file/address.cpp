#include "sink/file/address.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "millrace/text/parse_number.hpp"
#include "sink/file/folder.hpp"

namespace millrace::sink {
namespace {

constexpr std::string_view kPrefix = "file:";

[[noreturn]] void refuse(std::string_view spec, std::string_view setting) {
  throw std::invalid_argument(
      fmt::format("'{}': unknown setting '{}' (expected keep=newest, keep=all or segment_bytes=N)",
                  spec, setting));
}

void set(FileOptions& options, std::string_view setting, std::string_view spec) {
  constexpr std::string_view kBytes = "segment_bytes=";
  if (setting == "keep=all") {
    options.keep = Keep::all;
  } else if (setting == "keep=newest") {
    options.keep = Keep::newest;
  } else if (setting.starts_with(kBytes)) {
    using Bytes = decltype(options.segment_bytes);
    options.segment_bytes = text::parse_number<Bytes>(setting.substr(kBytes.size())).value_or(0);
    if (options.segment_bytes == 0) refuse(spec, setting);
  } else {
    refuse(spec, setting);
  }
}

}  // namespace

FileOptions parse_file_address(std::string_view spec) {
  const std::size_t question = spec.find('?');
  FileOptions options{.folder = folder_of(spec.substr(0, question), kPrefix)};
  if (question == std::string_view::npos) return options;
  for (std::string_view left = spec.substr(question + 1);;) {
    const std::size_t end = left.find('&');
    set(options, left.substr(0, end), spec);
    if (end == std::string_view::npos) return options;
    left.remove_prefix(end + 1);
  }
}

}  // namespace millrace::sink
