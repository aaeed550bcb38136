#include "millrace/memory/byte_size.hpp"

#include <rapidcheck.h>

#include <stdexcept>

#include "test/support/catch.hpp"

using namespace millrace;

TEST_CASE("a size is read with decimal and binary units, in any case") {
  CHECK(parse_bytes("0") == 0);
  CHECK(parse_bytes("512") == 512);
  CHECK(parse_bytes("1GiB") == std::size_t{1} << 30);
  CHECK(parse_bytes("1gib") == std::size_t{1} << 30);
  CHECK(parse_bytes("512 MiB") == std::size_t{512} << 20);
  CHECK(parse_bytes("1.5GB") == 1'500'000'000);
  CHECK(parse_bytes("2kB") == 2000);
}

TEST_CASE("text that is not a size is refused, and the message shows a valid size") {
  for (const char* text : {"", "GiB", "-1", "1XB", "1 GiB more", "nan", "inf", "1e400", "0x10",
                           "9999999999TiB", "1..5GB", "+1"}) {
    INFO(text);
    REQUIRE_THROWS_AS(parse_bytes(text), std::invalid_argument);
    try {
      (void)parse_bytes(text);
    } catch (const std::invalid_argument& error) {
      CHECK_THAT(error.what(), Catch::Matchers::ContainsSubstring("1GiB"));
    }
  }
}

TEST_CASE("any number of bytes reads back as itself") {
  CHECK(rc::check(
      [](std::uint32_t bytes) { RC_ASSERT(parse_bytes(std::to_string(bytes)) == bytes); }));
}

TEST_CASE("sizes are written with two digits in the largest unit that fits") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1.00 KiB");
  CHECK(format_bytes(std::size_t{3} << 29) == "1.50 GiB");
}
