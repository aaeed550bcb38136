#include "sink/secret.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "millrace/streamer/sink.hpp"
#include "millrace/streamer/sink_kinds.hpp"

namespace millrace {
namespace sink {
namespace {

constexpr std::size_t kLongest = 64 << 10;  ///< bytes of a secret in a file

std::string read_file(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  std::string text(kLongest + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    throw std::runtime_error(fmt::format("the secret file {} cannot be read", path));
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kLongest) {
    throw std::runtime_error(
        fmt::format("the secret file {} has more than {} KiB", path, kLongest >> 10));
  }
  // Editors and `echo` end a file with a line break.
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

}  // namespace

std::string Secret::read() const {
  if (variable_.empty()) return read_file(file_);
  const char* const value = std::getenv(variable_.c_str());
  if (value != nullptr) return value;
  throw std::runtime_error(
      fmt::format("environment variable {}, which should contain a secret, is not set", variable_));
}

bool is_secret(std::string_view setting) noexcept {
  if (setting.ends_with("-env") || setting.ends_with("-file")) return false;
  static constexpr std::array<std::string_view, 7> kWords{
      "password", "passwd", "secret", "credential", "key.pem", "oauthbearer.config", "auth"};
  return setting == "token" || setting.ends_with(".token") ||
         std::ranges::any_of(kWords, [&](std::string_view word) {
           return word == "auth" ? setting == word : setting.find(word) != std::string_view::npos;
         });
}

namespace {

bool of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view{"._-"}.find(c) != std::string_view::npos;
}

/**
 * Returns whether an '@' may be part of this setting's value. Otherwise it may end a password that
 * has a '?' in it.
 */
bool names_somebody(std::string_view setting) {
  return setting.find("username") != std::string_view::npos ||
         setting.find("principal") != std::string_view::npos;
}

/** Returns whether the text is NAME=VALUE, or several of them with '&' in between. */
bool are_settings(std::string_view text) {
  while (!text.empty()) {
    const std::string_view setting = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(setting.size() + 1, text.size()));
    const std::size_t equals = setting.find('=');
    if (equals == 0 || equals == std::string_view::npos) return false;
    const std::string_view name = setting.substr(0, equals);
    if (!std::ranges::all_of(name, of_name)) return false;
    if (setting.find('@') != std::string_view::npos && !names_somebody(name)) return false;
  }
  return true;
}

std::string with_hidden_values(std::string_view settings) {
  std::string shown;
  while (!settings.empty()) {
    const std::string_view setting = settings.substr(0, settings.find('&'));
    settings.remove_prefix(std::min(setting.size() + 1, settings.size()));
    const std::string_view name = setting.substr(0, setting.find('='));
    shown += shown.empty() ? "" : "&";
    shown += is_secret(name) ? fmt::format("{}=***", name) : std::string{setting};
  }
  return shown;
}

/** Returns the text without the part between the scheme and the last '@'. */
std::string without_user(std::string_view place) {
  const std::size_t at = place.rfind('@');
  if (at == std::string_view::npos) return std::string{place};
  std::size_t scheme = place.find("://");
  scheme = scheme == std::string_view::npos ? place.find(':') + 1 : scheme + 3;
  if (scheme > at) scheme = 0;
  return fmt::format("{}***{}", place.substr(0, scheme), place.substr(at));
}

}  // namespace
}  // namespace sink

std::string redacted(std::string_view spec) {
  const SinkKind* const kind = find_sink_kind(spec);
  if (kind != nullptr && kind->is_folder) return std::string{spec};
  const std::size_t question = spec.find('?');
  if (question == std::string_view::npos) return sink::without_user(spec);
  const std::string_view settings = spec.substr(question + 1);
  // The '?' may be part of a password, so everything up to the last '@' is hidden.
  if (!sink::are_settings(settings)) return sink::without_user(spec);
  return sink::without_user(spec.substr(0, question)) + '?' + sink::with_hidden_values(settings);
}

}  // namespace millrace
