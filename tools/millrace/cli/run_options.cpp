#include "cli/run_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/choices.hpp"
#include "cli/error.hpp"
#include "cli/without_effect.hpp"
#include "millrace/device/profile.hpp"
#include "millrace/pipeline/schedule/pipeline_options.hpp"
#include "millrace/pipeline/schedule/run_memory.hpp"
#include "millrace/text/parse_enum.hpp"

namespace millrace::cli {
namespace {

std::vector<std::string> device_names(bool gpus, const std::vector<std::string>& further) {
  std::vector<std::string> names;
  for (const std::string& profile : DeviceProfile::names()) names.push_back("virtual:" + profile);
  if (gpus) names.emplace_back("cuda:N");
  names.insert(names.end(), further.begin(), further.end());
  return names;
}

}  // namespace

std::string device_help(std::string_view profile, bool gpus,
                        const std::vector<std::string>& further) {
  return "Run on this device: " +
         choices_text(device_names(gpus, further), fmt::format("virtual:{}", profile));
}

std::string pipeline_help(PipelineKind standard) {
  std::string help =
      fmt::format("{} (default): {}", to_string(standard), traits_of(standard).summary);
  for (const PipelineKind kind : kPipelineKinds) {
    if (kind != standard) help += fmt::format("; {}: {}", to_string(kind), traits_of(kind).summary);
  }
  return help;
}

std::string allocator_help(const std::string& standard) {
  return "Use this allocator for device memory: " +
         choices_text({kAllocatorNames.begin(), kAllocatorNames.end()}, standard);
}

std::string allocator_names() { return fmt::format("{}", fmt::join(kAllocatorNames, ", ")); }

std::string waits_help() {
  return fmt::format(
      "Make streams wait for all work enqueued on the other stream ({}, default), or only for the "
      "work that is needed ({})",
      to_string(Waits::coarse), to_string(Waits::precise));
}

std::string lookup_position_help(const std::string& fused, Values values) {
  return fmt::format("Enqueue {}'s lookups {}: {}", fused,
                     values == Values::one ? "here" : "at these places",
                     choices_text(kLookupPositions, LookupOptions{}.position));
}

std::string lookup_stream_help(const std::string& fused, Values values) {
  return fmt::format("Run {}'s lookups on {}: {}", fused,
                     values == Values::one ? "this stream" : "these streams",
                     choices_text(kLookupStreams, LookupOptions{}.stream));
}

std::string cache_policy_help() {
  return "Use this policy in that cache: " + choices_text(kCachePolicies, TableCache{}.policy);
}

std::string pipelines_with(bool PipelineTraits::*trait) {
  std::vector<std::string> names;
  for (const PipelineKind kind : kPipelineKinds) {
    if (traits_of(kind).*trait) names.emplace_back(to_string(kind));
  }
  return text::alternatives(names);
}

void refuse_without_trait(bool PipelineTraits::*trait, const std::vector<PipelineKind>& chosen,
                          std::string_view option, bool given) {
  const auto has = [trait](PipelineKind kind) { return traits_of(kind).*trait; };
  const std::string names = pipelines_with(trait);
  refuse_without_effect(option, given && std::ranges::none_of(chosen, has),
                        fmt::format("only {} has this option", names), "--pipeline " + names);
}

DeviceDescription read_device(const std::string& name, const std::vector<std::string>& further) {
  try {
    return find_device(name);
  } catch (const std::exception& error) {
    const std::string what = error.what();  // may end with the names that the library knows
    throw UsageError{what.substr(0, what.find(" (expected ")), "--device",
                     fmt::format("{}", fmt::join(device_names(true, further), ", "))};
  }
}

std::vector<std::string> read_allocators(const std::string& text) {
  return read_names("--allocator", "allocator", text,
                    {kAllocatorNames.begin(), kAllocatorNames.end()});
}

unsigned read_run_ahead(const std::string& text) {
  return static_cast<unsigned>(read_whole("--run-ahead", text, 0, 1'000'000));
}

std::optional<TableCache> read_cache(const CacheArguments& given, bool always) {
  if (!given.load_factor && !always) {
    if (!given.policy) return std::nullopt;
    throw UsageError{"tables are not cached", "--cache-policy", "--cache-load-factor as well"};
  }
  TableCache cache;
  if (given.load_factor) {
    cache.load_factor = read_number("--cache-load-factor", *given.load_factor, 1e-9, 1);
  }
  if (given.policy) {
    cache.policy = read_choice("--cache-policy", "cache policy", *given.policy, kCachePolicies);
  }
  return cache;
}

}  // namespace millrace::cli
