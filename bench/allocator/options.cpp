#include "allocator/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <optional>
#include <stdexcept>

#include "millrace/device/cuda_device.hpp"
#include "millrace/text/parse_number.hpp"

namespace millrace::bench {
namespace {

constexpr int kBadUsage = 2, kSkipped = 4;

/// The arguments, not checked yet.
struct Arguments {
  std::string device = "null", scale = "default", json, filter;
  std::optional<std::string> data;
  bool quick = false, list = false;
  std::uint64_t seed = 1;
  std::optional<unsigned> repetitions;
};

void declare(CLI::App& app, Arguments& given) {
  app.add_option("--json", given.json, "Write the results to this file")->type_name("FILE");
  CLI::Option* const quick = app.add_flag(
      "--quick", given.quick, "Small cases only, one repetition of each (--scale quick)");
  app.add_option("--filter", given.filter, "Only cases whose SUITE/CASE/SUBJECT matches")
      ->type_name("REGEX");
  app.add_option("--device", given.device,
                 "null: calls return at once; cuda:N: a GPU (default null)")
      ->type_name("DEVICE");
  app.add_option("--data", given.data,
                 "Folder with the folder `traces`; '' for none (default: MILLRACE_DATA in the "
                 "environment)")
      ->type_name("FOLDER");
  app.add_option("--scale", given.scale,
                 "How long: default, quick, smoke, long (ten million steps of churn)")
      ->type_name("NAME")
      ->excludes(quick);
  app.add_option("--seed", given.seed, "Seed of the first repetition (default 1)");
  app.add_option("--repetitions", given.repetitions, "Of each case; each has a seed of its own");
  app.add_flag("--list", given.list, "Print the names of the cases that would run");
}

std::optional<int> read_device(const std::string& text) {
  if (text == "null") return std::nullopt;
  constexpr std::string_view kCuda = "cuda:";
  const std::string digits = text == "cuda" ? "0" : text.starts_with(kCuda) ? text.substr(5) : "";
  const int ordinal = text::parse_number<int>(digits).value_or(-1);
  if (ordinal < 0) {
    throw std::invalid_argument{
        fmt::format("--device {}: unknown device; right: null, cuda:0", text)};
  }
  return ordinal;
}

std::regex read_filter(const std::string& text) {
  try {
    return std::regex{text};
  } catch (const std::regex_error&) {
    throw std::invalid_argument{fmt::format(
        "--filter '{}': not a regular expression; right: 'random/1k-live/', 'cliffs/.*/cub'",
        text)};
  }
}

Options checked(const Arguments& given) {
  Options options;
  options.setting.scale = Scale::named(given.quick ? "quick" : given.scale);
  options.setting.seed = given.seed;
  options.setting.gpu = read_device(given.device);
  if (given.repetitions) {
    if (*given.repetitions == 0 || *given.repetitions > 1000) {
      throw std::invalid_argument{
          fmt::format("--repetitions {}: right: 1 to 1000", *given.repetitions)};
    }
    options.setting.scale.repetitions = *given.repetitions;
  }
  if (!given.filter.empty()) options.filter = read_filter(given.filter);
  options.json = given.json;
  options.list = given.list;
  const char* const data = std::getenv("MILLRACE_DATA");
  options.data = given.data ? *given.data : data != nullptr ? data : "";
  return options;
}

}  // namespace

ReadOptions read_options(int argc, char** argv) {
  CLI::App app{"Allocators on the same work: nanoseconds, device calls and memory of each",
               "bench_allocator"};
  Arguments given;
  declare(app, given);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return {std::nullopt, app.exit(error)};
    fmt::print(stderr, "bench_allocator: {}\n", error.what());
    return {std::nullopt, kBadUsage};
  }
  try {
    ReadOptions read{checked(given), 0};
    if (read.options->setting.gpu && cuda_device_count().count == 0 && !read.options->list) {
      fmt::print(stderr, "bench_allocator: nothing to run on: {}\n", cuda_device_count().reason);
      return {std::nullopt, kSkipped};
    }
    std::string command = "bench_allocator";
    for (int i = 1; i < argc; ++i) command += std::string{" "} + argv[i];
    read.options->command = command;
    return read;
  } catch (const std::invalid_argument& error) {
    fmt::print(stderr, "bench_allocator: {}\n", error.what());
    return {std::nullopt, kBadUsage};
  }
}

}  // namespace millrace::bench
