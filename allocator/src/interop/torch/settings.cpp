#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <stdexcept>

#include "millrace/interop/device_memory.hpp"
#include "millrace/interop/torch_settings.hpp"
#include "millrace/text/parse_number.hpp"

namespace millrace {
namespace {

using std::string_view;

/// Longest configuration that is accepted. An environment variable may have megabytes.
constexpr std::size_t kLongest = 1 << 16;

string_view trimmed(string_view text) {
  const auto from = text.find_first_not_of(" \t");
  if (from == string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

[[noreturn]] void refuse(string_view key, string_view value, string_view why) {
  throw std::invalid_argument{std::string{key} + ":" + std::string{value} + ": " +
                              std::string{why}};
}

std::size_t whole_number(string_view key, string_view value, std::size_t most) {
  const auto number = text::parse_number<std::size_t>(value);
  if (!number || *number > most) {
    refuse(key, value, "wanted a whole number from 0 to " + std::to_string(most));
  }
  return *number;
}

/// Parses a size in MiB, from 1 MiB to 1 TiB, into bytes.
std::size_t mebibytes(string_view key, string_view value) {
  const std::size_t mib = whole_number(key, value, std::size_t{1} << 20);
  if (mib == 0) refuse(key, value, "wanted at least 1");
  return mib << 20;
}

double fraction(string_view key, string_view value) {
  const auto number = text::parse_number<double>(value);
  if (!number || !(*number > 0 && *number <= 1)) {
    refuse(key, value, "wanted a number above 0 and at most 1");
  }
  return *number;
}

bool yes(string_view key, string_view value) {
  if (value == "True") return true;
  if (value != "False") refuse(key, value, "wanted True or False");
  return false;
}

std::size_t divisions(string_view key, string_view value) {
  const std::size_t number = whole_number(key, value, std::size_t{1} << 20);
  if (number != 0 && !std::has_single_bit(number)) refuse(key, value, "wanted a power of 2, or 0");
  return number;
}

// Parses [256:1,512:2,>:8]. Sizes are in MiB, and each entry applies up to the next one. The first
// entry also applies to smaller sizes.
void read_divisions(string_view key, string_view list, Policy& policy) {
  auto& all = policy.power2_divisions;
  string_view rest = list.substr(1, list.size() - 2);
  std::size_t filled = 0;
  while (!rest.empty()) {
    const string_view item = trimmed(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(
        rest.size(), rest.find(',') == string_view::npos ? rest.size() : rest.find(',') + 1));
    const auto colon = item.find(':');
    if (colon == string_view::npos) refuse(key, list, "wanted [size:divisions,...]");
    const string_view size = trimmed(item.substr(0, colon));
    const std::size_t value = divisions(key, trimmed(item.substr(colon + 1)));
    if (size == ">") {
      std::fill(all.begin() + static_cast<std::ptrdiff_t>(filled), all.end(), value);
      filled = all.size();
      continue;
    }
    const std::size_t mib = whole_number(key, size, std::size_t{1} << 15);
    if (!std::has_single_bit(mib)) refuse(key, list, "a size is not a power of 2");
    const auto at = static_cast<std::size_t>(std::countr_zero(mib));
    if (at < filled) refuse(key, list, "sizes have to increase");
    const std::size_t between = filled == 0 ? value : all[filled - 1];
    std::fill(all.begin() + static_cast<std::ptrdiff_t>(filled),
              all.begin() + static_cast<std::ptrdiff_t>(at), between);
    all[at] = value;
    filled = at + 1;
  }
  if (filled == 0) refuse(key, list, "wanted [size:divisions,...]");
  std::fill(all.begin() + static_cast<std::ptrdiff_t>(std::min(filled, all.size())), all.end(),
            all[std::min(filled, all.size()) - 1]);
}

using Apply = void (*)(string_view key, string_view value, TorchSettings& settings);

struct Key {
  string_view name;
  Apply apply;  // nullptr: a setting of pinned memory, which PyTorch itself still allocates
};

void has_no_effect(string_view key, string_view, TorchSettings& settings) {
  settings.without_effect.emplace_back(key);
}

constexpr std::array kKeys{
    Key{"backend",
        [](string_view key, string_view value, TorchSettings&) {
          if (value != "native")
            refuse(key, value, "Millrace takes the place of the native backend");
        }},
    Key{"expandable_segments",
        [](string_view key, string_view value, TorchSettings& settings) {
          settings.policy.growable_ranges = yes(key, value);
        }},
    Key{"max_split_size_mb",
        [](string_view key, string_view value, TorchSettings& settings) {
          settings.policy.max_split = mebibytes(key, value);
          if (settings.policy.max_split <= settings.policy.medium_segment) {
            refuse(key, value, "wanted more than 20");
          }
        }},
    Key{"large_segment_size_mb",
        [](string_view key, string_view value, TorchSettings& settings) {
          Policy& policy = settings.policy;
          policy.large_segment_least = mebibytes(key, value);
          policy.large_segment_most =
              std::max(policy.large_segment_most, policy.large_segment_least);
        }},
    Key{"garbage_collection_threshold",
        [](string_view key, string_view value, TorchSettings& settings) {
          settings.policy.collect_threshold = fraction(key, value);
        }},
    Key{"roundup_power2_divisions",
        [](string_view key, string_view value, TorchSettings& settings) {
          if (value.size() >= 2 && value.front() == '[' && value.back() == ']') {
            return read_divisions(key, value, settings.policy);
          }
          settings.policy.power2_divisions.fill(divisions(key, value));
        }},
    Key{"per_process_memory_fraction",
        [](string_view key, string_view value, TorchSettings& settings) {
          settings.fraction = fraction(key, value);
        }},
    Key{"max_non_split_rounding_mb", has_no_effect},
    Key{"release_lock_on_cudamalloc", has_no_effect},
    Key{"throw_on_cudamalloc_oom", has_no_effect},
    Key{"graph_capture_record_stream_reuse", has_no_effect},
    Key{"expandable_segments_reserve", has_no_effect},
    Key{"expandable_segments_reserve_by_class", has_no_effect},
    Key{"pinned_use_background_threads", nullptr},
    Key{"pinned_use_cuda_host_register", nullptr},
    Key{"pinned_use_hip_host_register", nullptr},
    Key{"pinned_num_register_threads", nullptr},
    Key{"pinned_max_round_threshold_mb", nullptr},
    Key{"pinned_max_cached_size_mb", nullptr},
    Key{"pinned_reserve_segment_size_mb", nullptr},
    Key{"pinned_free_catch_all", nullptr},
};

// Returns the text up to the next comma outside brackets.
string_view next_item(string_view& rest) {
  int depth = 0;
  std::size_t at = 0;
  for (; at < rest.size(); ++at) {
    if (rest[at] == '[') ++depth;
    if (rest[at] == ']') --depth;
    if (rest[at] == ',' && depth == 0) break;
  }
  const string_view item = trimmed(rest.substr(0, at));
  rest.remove_prefix(std::min(rest.size(), at + 1));
  return item;
}

}  // namespace

TorchSettings::TorchSettings() : policy(DeviceMemory::drop_in()) {}

TorchSettings TorchSettings::parse(string_view text) {
  TorchSettings settings;
  if (text.size() > kLongest) throw std::invalid_argument{"longer than 65536 characters"};
  settings.text = text;
  while (!text.empty()) {
    const string_view item = next_item(text);
    if (item.empty()) continue;
    const auto colon = item.find(':');
    const string_view name = trimmed(item.substr(0, colon));
    const auto* const key = std::ranges::find(kKeys, name, &Key::name);
    if (key == kKeys.end()) throw std::invalid_argument{std::string{name} + ": not a known key"};
    if (colon == string_view::npos) {
      throw std::invalid_argument{std::string{name} + ": has no value; wanted key:value"};
    }
    if (key->apply != nullptr) key->apply(name, trimmed(item.substr(colon + 1)), settings);
  }
  return settings;
}

TorchSettings TorchSettings::from_environment() {
  for (const char* const variable : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    const char* const text = std::getenv(variable);
    if (text == nullptr) continue;
    try {
      return parse(text);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument{std::string{variable} + ": " + error.what()};
    }
  }
  return {};
}

}  // namespace millrace
