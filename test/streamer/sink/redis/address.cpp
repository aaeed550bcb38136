#include "sink/redis/address.hpp"

#include <cstdlib>
#include <stdexcept>

#include "test/support/catch.hpp"

namespace millrace::test {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("a redis address has a host, a port and the prefix of keys") {
  const auto plain = sink::parse_redis_address("redis://rows.example:6379");
  CHECK(plain.host == "rows.example");
  CHECK(plain.port == 6379);
  CHECK(plain.prefix == "millrace");
  const auto six = sink::parse_redis_address("redis://[::1]:1/a-B_9.{x}");
  CHECK(six.host == "::1");
  CHECK(six.port == 1);
  CHECK(six.prefix == "a-B_9.{x}");
}

TEST_CASE("an invalid redis address is refused with the reason") {
  const auto [spec, why] = GENERATE(table<const char*, const char*>({
      {"redis:/h:1", "does not begin"},
      {"redis://h", "no port"},
      {"redis://h:", "a number from 1"},
      {"redis://h:0", "a number from 1"},
      {"redis://h:65536", "a number from 1"},
      {"redis://h:1x", "a number from 1"},
      {"redis://:1", "no host"},
      {"redis://[]:1", "no host"},
      {"redis://::1:1", "written in []"},
      {"redis://h:1/", "a prefix is"},
      {"redis://h:1/a:b", "a prefix is"},
      {"redis://h:1/a*", "a prefix is"},
      {"redis://h:1/a/b", "a prefix is"},
      {"redis://h:1/0", "?db=N"},
      {"redis://h:1?db=x", "a database is a number"},
      {"redis://h:1?db", "NAME=VALUE"},
      {"redis://h:1?db=", "no value"},
      {"redis://h:1?ca=/a", "unknown setting"},
      {"redis://h:1?prefix=a", "unknown setting"},
      {"redis://@h:1", "has no password"},
      {"redis://:pass@h:1", "?password-env=VARIABLE"},
      {"redis://me@h:1", "of a user the password is needed"},
      {"redis://h:1?password=pass", "password-env=VARIABLE"},
      {"redis://h:1?password-env=MILLRACE_NO_SUCH",
       "MILLRACE_NO_SUCH, which should contain a secret, is not set"},
      {"redis://h:1?password-file=/no/such", "/no/such cannot be read"},
      {"rediss://h:1?cert=/a", "cert and key"},
      {"redis+unix://run/s", "begins with '/'"},
      {"redis+unix:///run/s?prefix=a:b", "a prefix is"},
  }));
  CAPTURE(spec);
  CHECK_THROWS_WITH(sink::parse_redis_address(spec), ContainsSubstring(why));
}

TEST_CASE("a redis address can set database, user, password and TLS files") {
  ::setenv("MILLRACE_TEST_SECRET", "open", 1);
  const auto tls = sink::parse_redis_address(
      "rediss://app@h:6380/rows?db=3&password-env=MILLRACE_TEST_SECRET&ca=/ca.pem&cert=/c.pem&"
      "key=/k.pem&server-name=redis.example");
  CHECK(tls.host == "h");
  CHECK(tls.port == 6380);
  CHECK(tls.prefix == "rows");
  CHECK(tls.user == "app");
  CHECK(tls.database == 3);
  CHECK(tls.password.read() == "open");
  REQUIRE(tls.tls);
  CHECK(tls.tls->ca == "/ca.pem");
  CHECK(tls.tls->certificate == "/c.pem");
  CHECK(tls.tls->key == "/k.pem");
  CHECK(tls.tls->server_name == "redis.example");
  const auto local = sink::parse_redis_address(
      "redis+unix://app@/run/redis.sock?prefix=rows&db=1&password-env=MILLRACE_TEST_SECRET");
  CHECK(local.socket == "/run/redis.sock");
  CHECK(local.prefix == "rows");
  CHECK(local.user == "app");
  CHECK(local.database == 1);
  CHECK(!local.tls);
  ::unsetenv("MILLRACE_TEST_SECRET");
}

}  // namespace millrace::test
