#include "sink/kafka/address.hpp"

#include <stdexcept>

#include "sink/kafka/topic/keys.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("a kafka address has brokers, a topic and settings") {
  const auto plain = sink::parse_kafka_address("kafka://a:9092,b/rows-1.x_Y");
  CHECK(plain.brokers == "a:9092,b");
  CHECK(plain.topic == "rows-1.x_Y");
  CHECK(plain.requests() == "rows-1.x_Y.requests");
  CHECK(plain.settings.empty());
  const auto set = sink::parse_kafka_address("kafka://a/t?security.protocol=ssl&linger.ms=3");
  REQUIRE(set.settings.size() == 2);
  CHECK(set.settings[0] == std::pair<std::string, std::string>{"security.protocol", "ssl"});
  CHECK(set.settings[1].second == "3");
}

TEST_CASE("an invalid kafka address is refused with the reason") {
  const auto [spec, why] = GENERATE(table<const char*, const char*>({
      {"kafka:/a/t", "does not begin"},
      {"kafka://a", "no topic"},
      {"kafka:///t", "no broker"},
      {"kafka://a/", "a topic is"},
      {"kafka://a/..", "a topic is"},
      {"kafka://a/t/u", "a topic is"},
      {"kafka://a/t u", "a topic is"},
      {"kafka://a/t?x", "not of the form SETTING=VALUE"},
      {"kafka://a/t?=1", "not of the form SETTING=VALUE"},
      {"kafka://a/t?acks=1", "acks is not for users to set"},
      {"kafka://a/t?enable.idempotence=false", "not for users"},
  }));
  CAPTURE(spec);
  CHECK_THROWS_WITH(sink::parse_kafka_address(spec), ContainsSubstring(why));
}

// Rows of an existing topic must stay in the partition that has their older values.
TEST_CASE("a row has the same partition in every version of Millrace") {
  CHECK(sink::row_key("ab", 0x0102) == std::string("ab\0\0\0\0\0\0\0\x01\x02", 11));
  CHECK(sink::partition_of(sink::row_key("table.user", 0), 12) == 6);
  CHECK(sink::partition_of(sink::row_key("table.user", 17), 12) == 1);
  CHECK(sink::partition_of(sink::row_key("table.item", std::int64_t{1} << 40), 1000) == 15);
}

TEST_CASE("keys of commits and of schemas differ from all row keys") {
  CHECK(sink::commit_key(7) == std::string("\0m\0\0\0\x07", 6));
  CHECK(sink::schema_key().size() < sink::row_key("", 0).size());
  CHECK(sink::commit_key(~0U).size() < sink::row_key("", 0).size());
}

}  // namespace millrace::test
