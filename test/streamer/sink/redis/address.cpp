#include "sink/redis/address.hpp"

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

TEST_CASE("what is no redis address is refused with the reason") {
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
  }));
  CAPTURE(spec);
  CHECK_THROWS_WITH(sink::parse_redis_address(spec), ContainsSubstring(why));
}

}  // namespace millrace::test
