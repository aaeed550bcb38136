#include <string>

#include "millrace/streamer/sink.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

using Catch::Matchers::ContainsSubstring;

}  // namespace

TEST_CASE("a sink address is shown without its secrets") {
  const auto [spec, shown] = GENERATE(table<const char*, const char*>({
      {"redis://h:1/p?db=2", "redis://h:1/p?db=2"},
      {"redis://:hunter2@h:1", "redis://***@h:1"},
      {"redis://hunter2@h:1", "redis://***@h:1"},
      {"redis://app:hunter2@h:1/p?db=2", "redis://***@h:1/p?db=2"},
      {"redis://:hun@ter2@h:1", "redis://***@h:1"},
      {"redis://:hun/ter2@h:1", "redis://***@h:1"},
      {"redis://:hun?ter2@h:1", "redis://***@h:1"},
      {"redis://:hun?ter=2@h:1", "redis://***@h:1"},
      {"rediss://h:1?password=hunter2&ca=/a", "rediss://h:1?password=***&ca=/a"},
      {"rediss://h:1?password-env=NAME", "rediss://h:1?password-env=NAME"},
      {"reddis:hunter2@h:1", "reddis:***@h:1"},
      {"hunter2@h", "***@h"},
      {"kafka://h:1/t?sasl.username=me@work&sasl.password=hunter2",
       "kafka://h:1/t?sasl.username=me@work&sasl.password=***"},
      {"kafka://h/t?ssl.key.pem=hunter2", "kafka://h/t?ssl.key.pem=***"},
      {"kafka://h/t?ssl.key.password-file=/run/key", "kafka://h/t?ssl.key.password-file=/run/key"},
      {"file:/data/a@b?keep=all", "file:/data/a@b?keep=all"},
      {"", ""},
  }));
  CAPTURE(spec);
  CHECK(redacted(spec) == shown);
}

TEST_CASE("the error message about a refused address shows no secret") {
  for (const char* const spec :
       {"redis://:hunter2@h:1", "redis://hunter2@h:1", "redis://app:hunter2@h:1",
        "redis://:hunter2@h", "redis://:hunter2@[::1:1", "rediss://:hun/hunter2@h:1",
        "redis://h:1?password=hunter2", "rediss://h:1?key-password=hunter2",
        "redis+unix://:hunter2@/run/s", "redis+unix:///run/s?password=hunter2",
        "reddis://:hunter2@h:1", "redis:hunter2@h:1", "kafka://h/t?sasl.password=hunter2",
        "kafka://me:hunter2@h/t", "kafka://h/t?ssl.key.password=hunter2&acks=0",
        "kafka://h/t?acks=0&sasl.password=hunter2", "kafka://h?sasl.password=hunter2"}) {
    CAPTURE(spec);
    for (const bool is_sink : {true, false}) {
      try {
        if (is_sink) {
          (void)open_sink(spec);
        } else {
          (void)open_source(spec);
        }
        FAIL("it was taken");
      } catch (const std::invalid_argument& error) {
        CHECK_THAT(error.what(), !ContainsSubstring("hunter2"));
      }
    }
  }
}

}  // namespace millrace::test
