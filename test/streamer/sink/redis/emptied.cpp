// A server that loses all data while a batch is written in parts.
#include <chrono>
#include <string>
#include <thread>

#include "sink/redis/redis_sink.hpp"
#include "sink/redis/script.hpp"
#include "test/streamer/sink/batch_of_rows.hpp"
#include "test/support/catch.hpp"
#include "test/support/redis_server.hpp"

namespace millrace::test {
namespace {

using Catch::Matchers::ContainsSubstring;

std::string version_bytes(unsigned epoch, unsigned step) {
  std::string bytes(16, '\0');
  bytes[7] = static_cast<char>(epoch);
  bytes[15] = static_cast<char>(step);
  return bytes;
}

/// Calls the script for one row, as a part of the first batch of rank 0.
std::string call(const RedisServer& server, const std::string& part, const std::string& row,
                 const std::string& commit) {
  return server.command({"EVAL", std::string{sink::kWriteScript}, "2", "t:stream", row, "0",
                         std::string(16, '\0'), version_bytes(1, 1), commit, "", "", part,
                         version_bytes(1, 1) + "a row"});
}

}  // namespace

TEST_CASE("a later part of a chain's first batch is refused where the first part is gone",
          "[redis]") {
  need_redis_server();
  const RedisServer server;
  const std::string commit = version_bytes(1, 1) + "a commit";
  CHECK(call(server, "first", "t:1", "") == ":1\r\n");
  CHECK(call(server, "later", "t:2", "") == ":1\r\n");
  server.command({"FLUSHALL"});
  const std::string none = "$16\r\n" + std::string(16, '\0') + "\r\n";
  CHECK(call(server, "later", "t:3", "") == none);
  CHECK(call(server, "later", "t:4", commit) == none);
  CHECK(server.command({"DBSIZE"}) == ":0\r\n");

  CHECK(call(server, "first", "t:1", "") == ":1\r\n");  // it is written again
  CHECK(call(server, "later", "t:2", commit) == ":1\r\n");
  CHECK(server.command({"HKEYS", "t:stream"}) == "*1\r\n$6\r\nmark:0\r\n");
}

TEST_CASE("the commit of a chain's first batch never exists without all of its rows", "[redis]") {
  need_redis_server();
  const RedisServer server;
  sink::RedisSink rows{server.spec()};
  constexpr std::int64_t kRows = 20'000;
  int found_out = 0;
  for (unsigned keys = 500; keys < 6000; keys += 500) {
    server.command({"FLUSHALL"});
    rows.begin(four_wide_schema());
    std::jthread somebody{[&] {
      const auto there = [&] { return std::stoul(server.command({"DBSIZE"}).substr(1)); };
      while (there() < keys) {
      }
      server.command({"FLUSHALL"});
    }};
    const auto refusal = refusal_of([&] { rows.write(batch_of_rows({1, keys}, {}, 0, kRows, 1)); });
    somebody.join();
    if (refusal) {
      ++found_out;
      CHECK(refusal->kind == SinkError::Kind::lost);
      CHECK_THAT(refusal->what, ContainsSubstring("were removed before"));
      CHECK(rows.state().commits.empty());
    } else if (rows.state().commits.contains(0)) {
      CHECK(values_in(rows).size() == kRows);
    }
  }
  CHECK(found_out > 0);
}

}  // namespace millrace::test
