/// bench_allocator compares Millrace with other allocators, in one process and with the same work.
/// See docs/benchmarks.md.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <array>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "allocator/options.hpp"
#include "allocator/report/document.hpp"
#include "allocator/run_cases.hpp"

namespace {

using namespace millrace::bench;

constexpr int kFailed = 1, kBadUsage = 2, kSkipped = 4;

/// Names of the requested cases and subjects, even if they cannot run here.
std::vector<std::string> names_of(const Cases& cases, const Options& options) {
  std::vector<std::string> names;
  for (const Case& of : cases.all) {
    for (const SubjectRow& subject : subjects()) {
      std::string name = fmt::format("{}/{}/{}", of.suite, of.name, subject.name);
      if (!options.filter || std::regex_search(name, *options.filter)) {
        names.push_back(std::move(name));
      }
    }
  }
  return names;
}

void start_google_benchmark() {
  std::array<char, 16> name{"bench_allocator"};
  std::array<char, 64> interleaved{"--benchmark_enable_random_interleaving=true"};
  std::array<char*, 3> arguments{name.data(), interleaved.data(), nullptr};
  int count = 2;
  benchmark::Initialize(&count, arguments.data());
}

int run(const Options& options) {
  const Cases cases = make_cases({.data = options.data, .scale = options.setting.scale});
  const std::vector<std::string> names = names_of(cases, options);
  if (names.empty()) {
    throw std::invalid_argument{"--filter: no case matches; right: a part of a name of --list"};
  }
  if (options.list) {
    for (const std::string& name : names) fmt::print("{}\n", name);
    return 0;
  }
  // Report an error before the measurement, which takes minutes.
  if (!options.json.empty()) require_writable(options.json);
  start_google_benchmark();
  const Results results = run_cases(cases, options);
  benchmark::Shutdown();
  for (const LeftOut& out : results.left_out) {
    fmt::print("left out: {}{}{}: {}\n", out.suite,
               out.suite.empty() || out.name.empty() ? "" : "/", out.name, out.why);
  }
  if (results.rows.empty()) {
    fmt::print(stderr, "bench_allocator: nothing of what was asked for can run here\n");
    return kSkipped;
  }
  if (!options.json.empty()) {
    write_document(document_of(results.rows, results.left_out, options.setting, options.command),
                   options.json);
  }
  return results.failed ? kFailed : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const ReadOptions read = read_options(argc, argv);
  if (!read.options) return read.exit_code;
  try {
    return run(*read.options);
  } catch (const std::invalid_argument& error) {
    fmt::print(stderr, "bench_allocator: {}\n", error.what());
    return kBadUsage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_allocator: {}\n", error.what());
    return kFailed;
  }
}
