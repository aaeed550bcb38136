#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "millrace/observe/trace/read_trace.hpp"
#include "test/observe/trace_support.hpp"
#include "test/support/catch.hpp"
#include "test/support/gzip.hpp"
#include "test/support/scratch_folder.hpp"

namespace {

using Catch::Matchers::ContainsSubstring;
using millrace::test::gzipped;
using millrace::test::refusal;
using namespace millrace::trace;
using namespace std::string_literals;
using namespace std::string_view_literals;

/// Parses `bytes` with a limit of `memory` bytes.
/// @return the message of a refusal, or ""
std::string refused_within(std::uint64_t memory, const std::string& bytes) {
  TraceLimits limits;
  limits.max_memory = memory;
  return refusal([&] { return parse_trace(bytes, "file", limits); });
}

/// Returns the smallest limit with which a trace is read. Below it, the message names the limit.
std::uint64_t least_memory(const std::string& bytes) {
  std::uint64_t enough = 1 << 22, too_little = 0;
  REQUIRE(refused_within(enough, bytes).empty());
  while (enough - too_little > 1) {
    const std::uint64_t middle = too_little + (enough - too_little) / 2;
    const std::string problem = refused_within(middle, bytes);
    if (!problem.empty()) {
      CHECK_THAT(problem,
                 ContainsSubstring("needs more memory than a file of its length may take"));
    }
    (problem.empty() ? enough : too_little) = middle;
  }
  return enough;
}

std::string pickled_snapshot(int events) {
  std::string body;
  const auto append = [&](std::string_view part) { body.append(part); };
  append("\x80\x02}(X\x08\x00\x00\x00segments]X\x0d\x00\x00\x00"sv);
  append("device_traces](](");
  for (int i = 0; i < events; ++i) {
    append("}(X\x06\x00\x00\x00"sv);
    append("actionX\x08\x00\x00\x00"sv);
    append("snapshotu");
  }
  append("eeu.");
  return body;
}

std::string json_snapshot(int events) {
  std::string text = R"({"segments": [], "device_traces": [[{"action": "snapshot"})";
  for (int i = 1; i < events; ++i) text += R"(,{"action": "snapshot"})";
  return text + "]]}";
}

std::string lifetimes_of(int rows) {
  std::string text = "id,lower,upper,size\n";
  for (int i = 0; i < rows; ++i) text += std::to_string(i) + ",0,5,10\n";
  return text;
}

std::string rmm_log_of(int rows) {
  std::string text = "Thread,Time,Action,Pointer,Size,Stream\n";
  for (int i = 0; i < rows; ++i) {
    text += "1,00:00:00,allocate," + std::to_string(1000 + 10 * i) + ",10,0\n";
  }
  return text;
}

}  // namespace

TEST_CASE("the memory of a trace is limited in every format, in proportion to its content") {
  for (const auto& make : {pickled_snapshot, json_snapshot, lifetimes_of, rmm_log_of}) {
    const std::uint64_t of_100 = least_memory(make(100));
    const std::uint64_t of_200 = least_memory(make(200));
    CHECK(of_200 > of_100 + 10'000);
    CHECK(of_200 <= 2 * of_100);
  }
}

TEST_CASE("the memory limit of a trace grows with its bytes, and with the bytes of its gzip") {
  const std::string trace = lifetimes_of(1000);
  const std::string gzip = gzipped(trace);
  const std::uint64_t least = least_memory(trace);
  TraceLimits limits;
  limits.spare_memory = 0;
  const auto is_read = [&](const std::string& bytes) {
    return refusal([&] { return parse_trace(bytes, "file", limits); }).empty();
  };
  limits.memory_per_byte = least / trace.size() + 1;
  CHECK(is_read(trace));
  --limits.memory_per_byte;
  CHECK_FALSE(is_read(trace));

  limits.memory_per_byte = 1000;
  limits.memory_per_gzip_byte = least / gzip.size() + 1;
  CHECK(is_read(gzip));
  --limits.memory_per_gzip_byte;
  CHECK_FALSE(is_read(gzip));
  CHECK(is_read(trace));
}

TEST_CASE("a small gzip of very many values is refused") {
  const std::string nones = "\x80\x04](" + std::string(32 << 20, 'N') + "e.";
  CHECK_THAT(refusal([&] { return parse_trace(gzipped(nones), "file"); }),
             ContainsSubstring("needs more memory than a file of its length may take"));
}

TEST_CASE("a device is refused without being read") {
  for (const char* const device : {"/dev/zero", "/dev/null"}) {
    CHECK(refusal([&] { return read_trace(device); }) ==
          device + ": is a device, not a file or a pipe"s);
  }
}

TEST_CASE("a pipe is read up to the limit for files") {
  const millrace::test::ScratchFolder folder;
  const std::string pipe = (folder / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const auto refused = [&](std::uint64_t most, const std::string& content) {
    std::thread writer{[&] { std::ofstream{pipe} << content; }};
    TraceLimits limits;
    limits.max_file_bytes = most;
    const std::string problem = refusal([&] { return read_trace(pipe, limits); });
    writer.join();
    return problem;
  };
  const std::string trace = lifetimes_of(100);
  CHECK(refused(trace.size(), trace).empty());
  CHECK_THAT(refused(trace.size() - 1, trace), ContainsSubstring("is larger than the"));
}

TEST_CASE("a pipe without an end is refused by its first bytes") {
  const millrace::test::ScratchFolder folder;
  const std::string pipe = (folder / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::thread writer{[&] {
    std::ofstream stream{pipe, std::ios::binary};
    stream << std::string(1 << 16, '\0');  // fits into the pipe, so the writer does not block
  }};
  CHECK_THAT(refusal([&] { return read_trace(pipe); }),
             ContainsSubstring("is a binary file of another format"));
  writer.join();
}
