#pragma once

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "millrace/streamer/sink.hpp"
#include "millrace/streamer/sink_kinds.hpp"
#include "test/support/catch.hpp"
#include "test/tools/program.hpp"

/// Runs trainers that stream, and checks the results.
namespace millrace::test {

inline std::vector<std::string> train(std::vector<std::string> more) {
  std::vector<std::string> arguments{"train",        "--data", "synthetic", "--examples", "1000",
                                     "--batch-size", "50",     "--epochs",  "100000"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

inline std::string file_in(const ScratchFolder& folder, const std::string& name) {
  return "file:" + (folder / name).string();
}

/// The report of `stream verify` about a sink.
inline nlohmann::json verified(const std::string& sink, const std::string& checkpoint) {
  const ProgramRun run = run_program({"stream", "verify", sink, checkpoint, "--json", "-"});
  INFO(run.err);
  REQUIRE(run.exit_code >= 0);
  REQUIRE(run.exit_code <= 1);
  auto document = nlohmann::json::parse(run.out);
  CHECK(document["same"] == (run.exit_code == 0));
  return document;
}

inline void run_well(const std::vector<std::string>& arguments) {
  const ProgramRun run = run_program(arguments);
  INFO(run.out + run.err);
  REQUIRE(run.exit_code == 0);
}

/// Polls the condition, for as long as the slowest machine may need.
inline void wait_for(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes{2};
  while (!condition()) {
    REQUIRE(std::chrono::steady_clock::now() < until);
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
}

/// Identifies a file: each save makes another one. 0: no file.
inline std::uint64_t identity(const std::string& file) {
  struct stat status {};
  return ::stat(file.c_str(), &status) == 0 ? status.st_ino : 0;
}

/// True if a rank has committed a step to the sink.
inline bool has_marks(const std::string& sink) {
  try {
    return !open_sink(sink)->state().commits.empty();
  } catch (const SinkError&) {
    return false;
  }
}

inline bool built(std::string_view kind) {
  return std::ranges::any_of(
      sink_kinds(), [&](const SinkKind& each) { return each.name == kind && each.built(); });
}

}  // namespace millrace::test
