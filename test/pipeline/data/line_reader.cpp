#include "data/line_reader.hpp"

#include "millrace/pipeline/data/epoch_source.hpp"
#include "test/support/catch.hpp"

using Catch::Matchers::ContainsSubstring;
using millrace::LineReader;
using millrace::text_source;

TEST_CASE("a line of 64 MiB is read, and a longer line is refused") {
  const auto last_line = [](std::size_t length) {
    LineReader lines{text_source("some", "first\n" + std::string(length, 'x') + "\nthird\n")};
    std::string last;
    while (const auto line = lines.next()) last = *line;
    return last;
  };
  CHECK(last_line(LineReader::kEndless) == "third");
  CHECK_THROWS_WITH(last_line(LineReader::kEndless + (1 << 17)),
                    ContainsSubstring("some: line 2 goes on for more than 67108864 bytes"));
}
