#include "engine/settings.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "millrace/device/profile.hpp"
#include "millrace/memory/byte_size.hpp"
#include "millrace/text/parse_number.hpp"

namespace millrace::virtual_cuda {
namespace {

constexpr unsigned kMostGpus = 16;
constexpr std::size_t kLeastMemory = std::size_t{64} << 20;
constexpr std::size_t kMostMemory = std::size_t{1} << 40;

[[noreturn]] void refuse(const std::string& what, const std::string& right) {
  throw std::invalid_argument("MILLRACE_VIRTUAL: " + what + "; " + right);
}

[[noreturn]] void refuse_unknown(const char* kind, std::string_view found,
                                 const std::string& right) {
  refuse("unknown " + std::string{kind} + " '" + std::string{found} + '\'', right);
}

[[noreturn]] void refuse_range(std::string_view word, const std::string& right) {
  refuse(std::string{word} + " is out of range", right);
}

/** For example "a100, h100 or h200". */
std::string profiles() {
  const std::vector<std::string> names = DeviceProfile::names();
  std::string text = names.front();
  for (std::size_t i = 1; i < names.size(); ++i)
    text += (i + 1 < names.size() ? ", " : " or ") + names[i];
  return text;
}

std::string schedules() { return "a schedule is instant, lag:N, adversarial:SEED, " + profiles(); }

std::uint64_t number(std::string_view word, std::string_view text, const std::string& right) {
  const auto value = text::parse_number<std::uint64_t>(text);
  if (!value)
    refuse('\'' + std::string{text} + "' in " + std::string{word} + " is not a number", right);
  return *value;
}

std::size_t size(std::string_view word, std::string_view text) {
  const std::string right = "memory=SIZE takes 64MiB to 1TiB";
  std::size_t bytes = 0;
  try {
    bytes = parse_bytes(text);
  } catch (const std::invalid_argument&) {
    refuse('\'' + std::string{text} + "' in " + std::string{word} + " is not a size", right);
  }
  if (bytes < kLeastMemory || bytes > kMostMemory) refuse_range(word, right);
  return bytes;
}

bool is_profile(std::string_view name) {
  const std::vector<std::string> names = DeviceProfile::names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

void set_schedule(Settings& settings, std::string_view word) {
  constexpr std::string_view kLag = "lag:";
  constexpr std::string_view kAdversarial = "adversarial:";
  if (word == "instant") {
    settings.mode = Mode::instant;
  } else if (word.starts_with(kLag)) {
    settings.mode = Mode::lag;
    settings.lag = number(word, word.substr(kLag.size()), "lag:N needs a number of operations");
  } else if (word.starts_with(kAdversarial)) {
    settings.mode = Mode::adversarial;
    settings.seed =
        number(word, word.substr(kAdversarial.size()), "adversarial:SEED needs a number");
  } else if (is_profile(word)) {
    settings.mode = Mode::timed;
    settings.profile = word;
  } else {
    refuse_unknown("schedule", word, schedules());
  }
}

void set_option(Settings& settings, std::string_view word) {
  constexpr std::string_view kProfile = "profile=";
  constexpr std::string_view kGpus = "gpus=";
  constexpr std::string_view kMemory = "memory=";
  if (word.starts_with(kProfile)) {
    const std::string_view name = word.substr(kProfile.size());
    if (!is_profile(name)) refuse_unknown("profile", name, "a profile is " + profiles());
    settings.profile = name;
  } else if (word.starts_with(kGpus)) {
    const std::string right = "gpus=N takes 1 to " + std::to_string(kMostGpus);
    const std::uint64_t gpus = number(word, word.substr(kGpus.size()), right);
    if (gpus < 1 || gpus > kMostGpus) refuse_range(word, right);
    settings.gpus = static_cast<unsigned>(gpus);
  } else if (word.starts_with(kMemory)) {
    settings.memory = size(word, word.substr(kMemory.size()));
  } else {
    refuse_unknown("option", word, "an option is profile=NAME, gpus=N or memory=SIZE");
  }
}

Check parse_check(const std::string& text) {
  if (text.empty() || text == "0" || text == "off") return Check::off;
  if (text == "1" || text == "on") return Check::calls;
  if (text == "threads") return Check::threads;
  throw std::invalid_argument("MILLRACE_VIRTUAL_CHECK: '" + text +
                              "' is not known; it takes off, on or threads");
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Settings Settings::parse(std::string_view text) {
  Settings settings;
  std::size_t comma = std::min(text.find(','), text.size());
  set_schedule(settings, text.substr(0, comma));
  while (comma < text.size()) {
    text.remove_prefix(comma + 1);
    comma = std::min(text.find(','), text.size());
    set_option(settings, text.substr(0, comma));
  }
  return settings;
}

Settings Settings::from_environment() {
  const std::string text = variable("MILLRACE_VIRTUAL");
  Settings settings = text.empty() ? Settings{} : parse(text);
  settings.report = variable("MILLRACE_VIRTUAL_REPORT");
  settings.kernels = variable("MILLRACE_VIRTUAL_KERNELS");
  settings.costs = variable("MILLRACE_VIRTUAL_COSTS");
  settings.check = parse_check(variable("MILLRACE_VIRTUAL_CHECK"));
  return settings;
}

std::string Settings::schedule() const {
  switch (mode) {
    case Mode::instant:
      return "instant";
    case Mode::lag:
      return "lag:" + std::to_string(lag);
    case Mode::adversarial:
      return "adversarial:" + std::to_string(seed);
    case Mode::timed:
      return profile;
  }
  return {};
}

}  // namespace millrace::virtual_cuda
