// Rows when the server is down, slow or full, or has lost them.
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "sink/redis/redis_sink.hpp"
#include "test/streamer/sink/batch_of_rows.hpp"
#include "test/support/catch.hpp"
#include "test/support/redis_server.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using sink::RedisSink;
using std::chrono_literals::operator""ms;

/// A server, and a sink for it that has begun and has written rows 0 to 9 of version 1:1.
struct Begun {
  explicit Begun(RedisServer::Keeps keeps = RedisServer::Keeps::nothing,
                 const sink::RedisLimits& limits = {})
      : server(keeps), rows(server.spec(), limits) {
    rows.begin(four_wide_schema());
    rows.write(batch_of_rows({1, 1}, {}, 0, 10, 1));
  }

  RedisServer server;
  RedisSink rows;
};

void check_refused(const std::optional<Refusal>& refusal, SinkError::Kind kind, const char* words) {
  REQUIRE(refusal);
  CHECK(refusal->kind == kind);
  CHECK_THAT(refusal->what, ContainsSubstring(words));
}

}  // namespace

TEST_CASE("without a server calls fail as retry with the reason", "[redis]") {
  RedisSink rows{"redis://127.0.0.1:" + std::to_string(free_port())};
  const auto refusal = refusal_of([&] { (void)rows.state(); });
  check_refused(refusal, SinkError::Kind::retry, "Connection refused");
}

TEST_CASE("a killed server that kept its writes continues with the next batch", "[redis]") {
  need_redis_server();
  Begun begun{RedisServer::Keeps::all};
  begun.server.kill();
  const StepBatch next = batch_of_rows({1, 2}, {1, 1}, 5, 15, 2);
  const auto refusal = refusal_of([&] { begun.rows.write(next); });
  check_refused(refusal, SinkError::Kind::retry, "Connection refused");
  begun.server.start();
  begun.rows.write(next);
  const auto values = values_in(begun.rows);
  CHECK(values.size() == 15);
  CHECK(values.at(4) == 1);
  CHECK(values.at(5) == 2);
}

TEST_CASE("a killed server that kept nothing reports lost and accepts a new chain", "[redis]") {
  need_redis_server();
  Begun begun;
  begun.server.kill();
  begun.server.start();
  const auto refusal = refusal_of([&] {
    begun.rows.write(batch_of_rows({1, 2}, {1, 1}, 5, 15, 2));
  });
  check_refused(refusal, SinkError::Kind::lost, "continues 1:1, but the sink has nothing");
  CHECK(begun.server.command({"DBSIZE"}) == ":0\r\n");
  begun.rows.write(batch_of_rows({1, 2}, {}, 0, 20, 2));
  CHECK(values_in(begun.rows).size() == 20);
  CHECK(begun.rows.state().schema == four_wide_schema());
}

TEST_CASE("a server that is killed at any instant of a batch ends with all rows", "[redis]") {
  need_redis_server();
  sink::RedisLimits limits;
  limits.call_rows = 16;
  limits.calls = 2;
  Begun begun{RedisServer::Keeps::all, limits};
  std::mt19937_64 random{seed()};
  const auto start = std::chrono::steady_clock::now();
  begun.rows.write(batch_of_rows({1, 2}, {1, 1}, 0, 2000, 2));
  const std::chrono::nanoseconds whole = std::chrono::steady_clock::now() - start;
  unsigned retries = 0;
  for (std::uint64_t step = 3; step < 11; ++step) {
    const StepBatch batch =
        batch_of_rows({1, step}, {1, step - 1}, 0, 2000, static_cast<float>(step));
    const auto instant = whole * (random() % 100) / 100;
    std::thread killer{[&] {
      std::this_thread::sleep_for(instant);
      begun.server.signal(SIGKILL);
    }};
    while (true) {
      const auto refusal = refusal_of([&] { begun.rows.write(batch); });
      if (!refusal) break;
      REQUIRE(refusal->kind == SinkError::Kind::retry);
      ++retries;
      if (killer.joinable()) killer.join();
      begun.server.kill();
      begun.server.start();
    }
    if (killer.joinable()) killer.join();
    begun.server.kill();
    begun.server.start();
    const auto values = values_in(begun.rows);
    REQUIRE(values.size() == 2000);
    for (const auto& [row, value] : values) REQUIRE(value == static_cast<float>(step));
    REQUIRE(begun.rows.state().commits.at(0).version == Version{1, step});
  }
  CAPTURE(retries);
  CHECK(retries > 0);
}

TEST_CASE("a server that does not answer causes retry errors, and a repeated call completes",
          "[redis]") {
  need_redis_server();
  sink::RedisLimits limits;
  limits.reply = 50ms;
  limits.call_rows = 100;
  Begun begun{RedisServer::Keeps::nothing, limits};
  begun.server.signal(SIGSTOP);
  const StepBatch next = batch_of_rows({1, 2}, {1, 1}, 0, 1000, 2);
  for (int tries = 0; tries < 3; ++tries) {
    const auto refusal = refusal_of([&] { begun.rows.write(next); });
    check_refused(refusal, SinkError::Kind::retry, "no answer in 50 ms");
  }
  begun.server.signal(SIGCONT);
  while (refusal_of([&] { begun.rows.write(next); })) std::this_thread::sleep_for(10ms);
  CHECK(values_in(begun.rows).size() == 1000);
}

TEST_CASE("a full server is a retry error, and has no commit before all rows", "[redis]") {
  need_redis_server();
  Begun begun;
  begun.server.command({"CONFIG", "SET", "maxmemory", "1"});
  const StepBatch next = batch_of_rows({1, 2}, {1, 1}, 0, 1000, 2);
  const auto refusal = refusal_of([&] { begun.rows.write(next); });
  check_refused(refusal, SinkError::Kind::retry, "OOM command not allowed");
  CHECK(begun.rows.state().commits.at(0).version == Version{1, 1});
  begun.server.command({"CONFIG", "SET", "maxmemory", "0"});
  begun.rows.write(next);
  CHECK(values_in(begun.rows).size() == 1000);
}

TEST_CASE("a server with an eviction policy is refused as wrong", "[redis]") {
  need_redis_server();
  RedisServer server{RedisServer::Keeps::nothing,
                     {"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}};
  RedisSink rows{server.spec()};
  const auto refusal = refusal_of([&] { rows.begin(four_wide_schema()); });
  check_refused(refusal, SinkError::Kind::wrong, "noeviction");
  server.command({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  rows.begin(four_wide_schema());
}

TEST_CASE("a read-only server is a retry error", "[redis]") {
  need_redis_server();
  Begun begun;
  begun.server.command({"REPLICAOF", "127.0.0.1", std::to_string(free_port())});
  const StepBatch next = batch_of_rows({1, 2}, {1, 1}, 0, 10, 2);
  check_refused(refusal_of([&] { begun.rows.write(next); }), SinkError::Kind::retry, "READONLY");
  begun.server.command({"REPLICAOF", "NO", "ONE"});
  begun.rows.write(next);
}

TEST_CASE("a key with a foreign value is refused as wrong, and the batch has no commit",
          "[redis]") {
  need_redis_server();
  sink::RedisLimits limits;
  limits.call_rows = 4;
  Begun begun{RedisServer::Keeps::nothing, limits};
  begun.server.command({"RPUSH", "test:table.user:17", "something"});
  const auto refusal = refusal_of([&] {
    begun.rows.write(batch_of_rows({1, 2}, {1, 1}, 0, 100, 2));
  });
  check_refused(refusal, SinkError::Kind::wrong, "WRONGTYPE");
  CHECK(begun.rows.state().commits.at(0).version == Version{1, 1});
  CHECK_THROWS_AS(values_in(begun.rows), RecordError);

  begun.server.command({"DEL", "test:table.user:17"});
  begun.server.command({"SET", "test:table.user:17", "something"});
  const auto short_one = refusal_of([&] {
    begun.rows.write(batch_of_rows({1, 2}, {1, 1}, 0, 100, 2));
  });
  check_refused(short_one, SinkError::Kind::wrong, "test:table.user:17 holds no row");
  CHECK_THROWS_AS(values_in(begun.rows), RecordError);
}

TEST_CASE("a foreign value in the stream's key is refused as wrong", "[redis]") {
  need_redis_server();
  RedisServer server;
  RedisSink rows{server.spec()};
  server.command({"SET", "test:stream", "mine"});
  check_refused(refusal_of([&] { rows.begin(four_wide_schema()); }), SinkError::Kind::wrong,
                "WRONGTYPE");
  server.command({"DEL", "test:stream"});
  server.command({"HSET", "test:stream", "mark:0", "none of yours, and long enough for a version"});
  check_refused(refusal_of([&] { (void)rows.state(); }), SinkError::Kind::wrong,
                "not written by Millrace");
}

TEST_CASE("a row under another row's key is an error for readers", "[redis]") {
  need_redis_server();
  Begun begun;
  begun.server.command({"COPY", "test:table.user:1", "test:table.user:11"});
  CHECK_THROWS_WITH(values_in(begun.rows), ContainsSubstring("test:table.user:11"));
}

TEST_CASE("a server with a password needs the password of REDISCLI_AUTH", "[redis]") {
  need_redis_server();
  RedisServer server{RedisServer::Keeps::nothing, {"--requirepass", "open"}};
  RedisSink rows{server.spec()};
  check_refused(refusal_of([&] { (void)rows.state(); }), SinkError::Kind::wrong, "NOAUTH");
  ::setenv("REDISCLI_AUTH", "shut", 1);
  const auto refusal = refusal_of([&] { (void)rows.state(); });
  ::setenv("REDISCLI_AUTH", "open", 1);
  const auto none = refusal_of([&] { (void)rows.state(); });
  ::unsetenv("REDISCLI_AUTH");
  check_refused(refusal, SinkError::Kind::wrong, "WRONGPASS");
  CHECK(!none);
}

TEST_CASE("a connection that the server has closed is replaced without a retry error", "[redis]") {
  need_redis_server();
  Begun begun;
  begun.server.command({"CLIENT", "KILL", "TYPE", "normal"});
  begun.rows.write(batch_of_rows({1, 2}, {1, 1}, 10, 20, 2));
  begun.server.command({"CLIENT", "KILL", "TYPE", "normal"});
  CHECK(values_in(begun.rows).size() == 20);
}

TEST_CASE("scripts that the server has lost are loaded again without a retry error", "[redis]") {
  need_redis_server();
  Begun begun;
  begun.server.command({"SCRIPT", "FLUSH"});
  begun.rows.write(batch_of_rows({1, 2}, {1, 1}, 10, 20, 2));
  CHECK(values_in(begun.rows).size() == 20);
}

TEST_CASE("the snapshot key requests a snapshot until its value changes", "[redis]") {
  need_redis_server();
  Begun begun;
  CHECK(begun.rows.snapshot_request() == 0);
  begun.server.command({"SET", "test:snapshot", "1764000000000"});
  CHECK(begun.rows.snapshot_request() == 1764000000000);
  CHECK(begun.rows.snapshot_request() == 1764000000000);
  begun.server.command({"SET", "test:snapshot", "18446744073709551615"});
  CHECK(begun.rows.snapshot_request() == ~0ULL);
  begun.server.command({"SET", "test:snapshot", "5"});
  CHECK(begun.rows.snapshot_request() == 5);
  begun.server.command({"SET", "test:snapshot", "please"});
  check_refused(refusal_of([&] { (void)begun.rows.snapshot_request(); }), SinkError::Kind::wrong,
                "'please'");
}

TEST_CASE("streams with different prefixes are independent", "[redis]") {
  need_redis_server();
  RedisServer server;
  RedisSink one{server.spec("a")}, other{server.spec("a-b")};
  one.begin(four_wide_schema());
  other.begin(four_wide_schema());
  one.write(batch_of_rows({1, 1}, {}, 0, 10, 1));
  CHECK(values_in(other).empty());
  CHECK(other.state().commits.empty());
  other.write(batch_of_rows({7, 1}, {}, 0, 5, 2));
  CHECK(values_in(one).size() == 10);
}

TEST_CASE("the kind of a Redis error follows from its message", "[redis]") {
  using Kind = SinkError::Kind;
  const auto [words, kind] = GENERATE(table<const char*, Kind>({
      {"LOADING Redis is loading the dataset in memory", Kind::retry},
      {"MISCONF Redis is configured to save RDB snapshots, but is unable to", Kind::retry},
      {"BUSY Redis is busy running a script", Kind::retry},
      {"MASTERDOWN Link with MASTER is down", Kind::retry},
      {"NOREPLICAS Not enough good replicas to write.", Kind::retry},
      {"ERR max number of clients reached", Kind::retry},
      {"ERR Error running script (call to f_0): @user_script:9: -OOM command not allowed",
       Kind::retry},
      {"ERR Error running script (call to f_0): @user_script:9: WRONGTYPE Operation", Kind::wrong},
      {"NOPERM this user has no permissions to run the 'evalsha' command", Kind::wrong},
      {"DENIED Redis is running in protected mode", Kind::wrong},
      {"MOVED 3999 127.0.0.1:6381", Kind::wrong},
      {"ERR unknown command 'EVALSHA'", Kind::wrong},
  }));
  CAPTURE(words);
  CHECK(sink::kind_of_redis_error(words) == kind);
}

}  // namespace millrace::test
