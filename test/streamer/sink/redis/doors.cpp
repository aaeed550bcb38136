// Ways to connect to a server: TLS, a socket, a user of the access control list, a database. Also
// limits on the time that a peer may take.
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "sink/redis/redis_sink.hpp"
#include "test/streamer/sink/batch_of_rows.hpp"
#include "test/streamer/sink/redis/fake_redis.hpp"
#include "test/support/catch.hpp"
#include "test/support/child_process.hpp"
#include "test/support/redis_server.hpp"

namespace millrace::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using sink::RedisSink;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

void check_works(const std::string& spec) {
  RedisSink rows{spec};
  rows.begin(four_wide_schema());
  rows.write(batch_of_rows({1, 1}, {}, 0, 10, 1));
  CHECK(values_in(rows).size() == 10);
}

void check_refused(const std::string& spec, const char* words) {
  RedisSink rows{spec};
  const auto refusal = refusal_of([&] { (void)rows.state(); });
  REQUIRE(refusal);
  CHECK(refusal->kind == SinkError::Kind::wrong);
  CHECK_THAT(refusal->what, ContainsSubstring(words));
}

/// Sets an environment variable during its lifetime.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

/// Certificates made by openssl for an authority, a server "redis.test" and a client. The password
/// of the client's key is "open".
class Certificates {
 public:
  Certificates() {
    run("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 -subj /CN=ca");
    sign("server", "redis.test", "-nodes");
    sign("client", "client", "-passout pass:open");
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  [[nodiscard]] std::vector<std::string> options(int port) const {
    return {"--tls-port",         std::to_string(port),
            "--tls-cert-file",    path("server.crt"),
            "--tls-key-file",     path("server.key"),
            "--tls-ca-cert-file", path("ca.crt"),
            "--tls-auth-clients", "optional"};
  }

 private:
  void run(const std::string& arguments) const {
    const std::string command =
        "cd '" + folder_.path().string() + "' && openssl " + arguments + " >/dev/null 2>&1";
    REQUIRE(std::system(command.c_str()) == 0);
  }
  void sign(const std::string& name, const std::string& subject, const std::string& key) const {
    std::ofstream{path(name + ".ext")} << "subjectAltName=DNS:" << subject << "\n";
    run("req -newkey rsa:2048 " + key + " -keyout " + name + ".key -out " + name +
        ".csr -subj /CN=" + subject);
    run("x509 -req -in " + name +
        ".csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile " + name + ".ext -out " +
        name + ".crt");
  }

  ScratchFolder folder_;
};

}  // namespace

TEST_CASE("a server is reached over TLS only with the right authority and name", "[redis]") {
  need_redis_server();
  if (find_program("openssl").empty()) SKIP("there is no openssl to make certificates");
  const Certificates certificates;
  const int port = free_port();
  const RedisServer server{RedisServer::Keeps::nothing, certificates.options(port)};
  const std::string place = "rediss://127.0.0.1:" + std::to_string(port) + "/test?";
  const std::string ca = "ca=" + certificates.path("ca.crt");
  check_works(place + ca + "&server-name=redis.test");
  check_refused(place + ca, "not trusted: IP address mismatch");
  check_refused(place + ca + "&server-name=redis.other", "not trusted: hostname mismatch");
  check_refused(place + "server-name=redis.test", "not trusted");
  check_refused(place + "ca=" + certificates.path("no.crt"), "has no certificates");
}

TEST_CASE("a client certificate and its encrypted key are used if the server requires them",
          "[redis]") {
  need_redis_server();
  if (find_program("openssl").empty()) SKIP("there is no openssl to make certificates");
  const Certificates certificates;
  const int port = free_port();
  auto options = certificates.options(port);
  options.back() = "yes";
  const RedisServer server{RedisServer::Keeps::nothing, options};
  const std::string place = "rediss://127.0.0.1:" + std::to_string(port) +
                            "/test?server-name=redis.test&ca=" + certificates.path("ca.crt");
  const std::string own =
      "&cert=" + certificates.path("client.crt") + "&key=" + certificates.path("client.key");
  const Variable password{"MILLRACE_TEST_KEY", "open"};
  check_works(place + own + "&key-password-env=MILLRACE_TEST_KEY");
  check_refused(place + own, "is not the key of");
  RedisSink rows{place};
  CHECK(refusal_of([&] { (void)rows.state(); }));
}

TEST_CASE("a server is reached over its Unix socket", "[redis]") {
  need_redis_server();
  const ScratchFolder folder;
  const std::string socket = (folder / "s").string();
  const RedisServer server{RedisServer::Keeps::nothing, {"--unixsocket", socket}};
  check_works("redis+unix://" + socket + "?prefix=test");
  RedisSink rows{"redis+unix://" + socket + ".none"};
  const auto refusal = refusal_of([&] { (void)rows.state(); });
  REQUIRE(refusal);
  CHECK(refusal->kind == SinkError::Kind::retry);
}

TEST_CASE("a user of the ACL logs in with a password from a file or a variable", "[redis]") {
  need_redis_server();
  const ScratchFolder folder;
  const RedisServer server{
      RedisServer::Keeps::nothing,
      {"--requirepass", "other", "--user", "app", "on", ">open", "~test*", "+@all"}};
  std::string place = server.spec();
  place.insert(place.find("//") + 2, "app@");
  const std::string file = (folder / "password").string();
  std::ofstream{file} << "open\n";
  check_works(place + "?password-file=" + file);
  std::ofstream{file} << "wrong\n";
  check_refused(place + "?password-file=" + file, "WRONGPASS");
  const Variable one{"MILLRACE_TEST_SECRET", "open"}, usual{"REDISCLI_AUTH", "other"};
  check_works(place + "?password-env=MILLRACE_TEST_SECRET");  // each sink has its own password
  check_works(server.spec());
  check_refused(place, "WRONGPASS");
}

TEST_CASE("without a server password REDISCLI_AUTH is ignored, an explicit password is refused",
          "[redis]") {
  need_redis_server();
  const RedisServer server;
  const Variable usual{"REDISCLI_AUTH", "open"};
  check_works(server.spec());
  check_refused(server.spec() + "?password-env=REDISCLI_AUTH", "without any password");
}

TEST_CASE("rows in one Redis database are not visible in another", "[redis]") {
  need_redis_server();
  const RedisServer server;
  check_works(server.spec() + "?db=5");
  RedisSink other{server.spec()};
  CHECK(!other.state().schema);
  CHECK(server.command({"DBSIZE"}) == ":0\r\n");
  check_refused(server.spec() + "?db=99", "no database 99");
}

TEST_CASE("the time limit applies to the whole reply, however slowly its bytes arrive", "[redis]") {
  const std::string endless = "$60000000\r\n" + std::string(1000, 'x');
  for (const std::string& reply : {std::string{}, endless}) {
    FakeRedis::Answers answers{{"HGETALL", reply}};
    const FakeRedis server{answers, 5ms};  // 5 ms between bytes
    sink::RedisLimits limits;
    limits.reply = 300ms;
    RedisSink rows{server.spec(), limits};
    const auto begin = Clock::now();
    const auto refusal = refusal_of([&] { (void)rows.state(); });
    const auto took = Clock::now() - begin;
    REQUIRE(refusal);
    CHECK(refusal->kind == SinkError::Kind::retry);
    CHECK_THAT(refusal->what, ContainsSubstring("no answer in 300 ms"));
    CHECK(took >= 300ms);
    CHECK(took < 5s);  // a thousand bytes would take 5 s
  }
}

TEST_CASE("finish_by also ends a call in progress", "[redis]") {
  const FakeRedis server{{{"HGETALL", ""}}};
  RedisSink rows{server.spec()};  // a reply may take 10 s
  const auto begin = Clock::now();
  std::thread other{[&] {
    std::this_thread::sleep_for(100ms);
    rows.finish_by(Clock::now() + 100ms);
  }};
  const auto refusal = refusal_of([&] { (void)rows.state(); });
  other.join();
  REQUIRE(refusal);
  CHECK(refusal->kind == SinkError::Kind::retry);
  CHECK_THAT(refusal->what, ContainsSubstring("no answer before the deadline"));
  CHECK(Clock::now() - begin < 5s);
  const auto later = refusal_of([&] { (void)rows.state(); });
  CHECK(later);
}

TEST_CASE("an eviction policy that is set during a run is found by the next audit", "[redis]") {
  need_redis_server();
  const RedisServer server;
  RedisSink rows{server.spec()};
  rows.begin(four_wide_schema());
  rows.write(batch_of_rows({1, 1}, {}, 0, 10, 1));
  rows.audit(0, 1);
  server.command({"CONFIG", "SET", "maxmemory", "100mb"});
  rows.audit(0, 1);
  server.command({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  const auto refusal = refusal_of([&] { rows.audit(0, 1); });
  REQUIRE(refusal);
  CHECK(refusal->kind == SinkError::Kind::wrong);
  CHECK_THAT(refusal->what, ContainsSubstring("noeviction"));
}

TEST_CASE("list_rows lists the existing rows of the stream without their values", "[redis]") {
  need_redis_server();
  const RedisServer server;
  RedisSink rows{server.spec()};
  rows.begin(four_wide_schema());
  rows.write(batch_of_rows({1, 1}, {}, 0, 1000, 1));
  server.command({"DEL", "test:table.user:17"});
  server.command({"SET", "test:table.nobody:17", "something"});
  std::map<std::int64_t, int> found;
  CHECK(rows.list_rows([&](std::uint32_t table, std::int64_t row) {
    CHECK(table == 0);
    ++found[row];
  }));
  CHECK(found.size() == 999);
  CHECK(!found.contains(17));
}

TEST_CASE("a later trainer's commit makes each write and each audit fail as overtaken", "[redis]") {
  need_redis_server();
  const RedisServer server;
  RedisSink one{server.spec()}, later{server.spec()};
  for (RedisSink* rows : {&one, &later}) rows->begin(four_wide_schema());
  one.write(batch_of_rows({1, 1}, {}, 0, 10, 1));
  later.write(batch_of_rows({2, 1}, {}, 0, 10, 2));
  const auto write = refusal_of([&] { one.write(batch_of_rows({1, 2}, {1, 1}, 0, 10, 3)); });
  REQUIRE(write);
  CHECK(write->kind == SinkError::Kind::overtaken);
  const auto look = refusal_of([&] { one.audit(0, 1); });
  REQUIRE(look);
  CHECK(look->kind == SinkError::Kind::overtaken);
  CHECK(values_in(one).at(3) == 2);
}

TEST_CASE("a value that is not a row of its key is replaced, whatever its bytes", "[redis]") {
  need_redis_server();
  const RedisServer server;
  RedisSink rows{server.spec()};
  rows.begin(four_wide_schema());
  rows.write(batch_of_rows({1, 1}, {}, 0, 10, 1));
  server.command({"COPY", "test:table.user:1", "test:table.user:5", "REPLACE"});
  server.command({"SETRANGE", "test:table.user:6", "0", std::string(16, '\xff')});
  server.command({"SET", "test:table.user:7", std::string(72, '\xff')});
  server.command({"SET", "test:table.user:8", std::string(20, '\xff')});
  rows.write(batch_of_rows({1, 2}, {1, 1}, 0, 10, 2));
  const auto values = values_in(rows);
  CHECK(values.size() == 10);
  for (const auto& [row, value] : values) CHECK(value == 2);
}

}  // namespace millrace::test
