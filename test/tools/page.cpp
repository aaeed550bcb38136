#include <stdlib.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "cli/fitted.hpp"
#include "cli/text.hpp"
#include "test/support/catch.hpp"
#include "test/tools/file_options.hpp"
#include "test/tools/program.hpp"
#include "test/tools/terminal.hpp"

using namespace millrace::cli;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Sets an environment variable for the programs that start during this object's lifetime.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Environment() { ::unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream{text};
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  for (const std::string& line : lines_of(text)) most = std::max(most, width_of(line));
  return most;
}

std::vector<std::string> page_words(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream{text};
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::size_t longest_word(const std::string& text) {
  std::size_t most = 0;
  for (const std::string& word : page_words(text)) most = std::max(most, width_of(word));
  return most;
}

const std::vector<std::string> kFootprint{
    "footprint", "--workload", "pr2916", "--allocator", "torch", "--seeds", "1", "--steps", "6"};
const std::vector<std::string> kPipelines{
    "pipelines",    "--pipeline", "base,sparse-dist", "--steps", "4",       "--ranks", "1",
    "--batch-size", "64",         "--seeds",          "1",       "--waits", "all"};
const std::vector<std::string> kBench{"stream",       "bench", "--rows",  "2000",
                                      "--table-rows", "4000",  "--steps", "4"};
const std::vector<std::string> kDoctor{"doctor"};

/// All words with a digit, sorted.
std::vector<std::string> figures_of(const std::string& text) {
  std::vector<std::string> words = page_words(text);
  std::erase_if(words, [](const std::string& word) {
    return word.find_first_of("0123456789") == std::string::npos;
  });
  std::ranges::sort(words);
  return words;
}

}  // namespace

TEST_CASE("page: help is as wide as the page, with the same words") {
  for (const CommandFiles& command : all_commands()) {
    std::vector<std::string> help = command.words;
    help.emplace_back("--help");
    const std::string wide = run_program(help).out;
    CHECK(widest(wide) <= std::max<std::size_t>(80, longest_word(wide) + 34));
    for (const std::size_t columns : {60, 100, 119}) {
      const Environment width{"COLUMNS", std::to_string(columns)};
      const std::string text = run_program(help).out;
      INFO(columns << ":\n" << text);
      CHECK(page_words(text) == page_words(wide));
      // A name that is longer than its column takes the room that it needs, with nothing beside it.
      CHECK(widest(text) <= std::max(columns, longest_word(text) + 34));
    }
  }
}

TEST_CASE("page: the tables of every command fit the page and lose no figure") {
  const ScratchFolder scratch;
  const std::string trace =
      scratch.write("trace.csv", "id,lower,upper,size\n0,0,9,9000000\n1,1,9,4000000\n").string();
  const std::vector<std::string> replay{"replay", trace};
  for (std::vector<std::string> command : {kFootprint, kPipelines, kBench, replay, kDoctor}) {
    for (const bool wide : {false, true}) {
      if (wide && command == kDoctor) continue;
      if (wide) command.emplace_back("--wide");
      const std::vector<std::string> all = [&] {
        const Environment width{"COLUMNS", "119"};
        return figures_of(run_program(command).out);
      }();
      for (const std::size_t columns : {60, 80}) {
        const Environment width{"COLUMNS", std::to_string(columns)};
        const std::string text = run_program(command).out;
        INFO(text);
        CHECK(widest(text) <= columns);
        CHECK(std::ranges::includes(figures_of(text), all));
      }
    }
  }
}

TEST_CASE("page: without a terminal the first screen has at most 80 columns, as one table") {
  for (const auto& command : {kFootprint, kPipelines, kBench}) {
    const std::string text = run_program(command).out;
    INFO(text);
    CHECK(widest(text) <= 80);
    std::size_t tables = 0;
    for (const std::string& line : lines_of(text)) tables += line.find("──") != std::string::npos;
    CHECK(tables == 1);
  }
}

TEST_CASE("page: the width of a terminal is the width of the page") {
  const ScratchFolder scratch;
  Terminal terminal;
  terminal.resize(70);
  StartedProgram program{{"train", "--help"}, terminal.name(), (scratch / "err").string()};
  const std::string text = terminal.read_all();
  CHECK(program.wait() == 0);
  CHECK(page_words(text).size() > 100);
  CHECK(widest(text) <= 71);  // including the carriage return
}

TEST_CASE("page: an invalid COLUMNS is ignored, and a tiny width is accepted") {
  const std::string usual = run_program({"doctor"}).out;
  for (const char* const none : {"", "wide", "-3", "12x"}) {
    const Environment width{"COLUMNS", none};
    CHECK(run_program({"doctor"}).out == usual);
  }
  const Environment width{"COLUMNS", "3"};
  CHECK(run_program({"doctor"}).exit_code == 0);
}

TEST_CASE("a table wider than the page is split, and each part has the columns that name rows") {
  TextTable table{{{"", {{"name"}}},
                   {"", {{"kind"}}},
                   {"first", {{"aaaa"}, {"bbbb"}}},
                   {"second", {{"cccc"}, {"dddd"}}}}};
  table.add_line("all of these", Look::plain);
  table.add_row({{"one"}, {"k1"}, {"1"}, {"2"}, {"3"}, {"4"}});
  table.add_line({"two"}, {"what went wrong with it, in words"});
  const Painter plain{false};
  CHECK(table.render(plain, 119) ==
        "            first      second   \n"
        "            ─────────  ─────────\n"
        "name  kind  aaaa bbbb  cccc dddd\n"
        "all of these\n"
        "one     k1     1    2     3    4\n"
        "two   what went wrong with it, in words\n");
  const std::string narrow = table.render(plain, 25);
  INFO(narrow);
  CHECK(widest(narrow) <= 25);
  CHECK_THAT(narrow, ContainsSubstring("one     k1     1    2\n") &&
                         ContainsSubstring("one     k1     3    4\n"));
}

TEST_CASE("a group of columns is as wide as its heading") {
  TextTable table{{{"", {{"name"}}}, {"a long heading", {{"a"}, {"b"}}}, {"c", {{"c"}}}}};
  table.add_row({{"one"}, {"1"}, {"2"}, {"3"}});
  CHECK(table.render(Painter{false}, 119) ==
        "      a long heading  c\n"
        "      ──────────────  ─\n"
        "name             a b  c\n"
        "one              1 2  3\n");
}

TEST_CASE("a line wider than the page breaks between words, and keeps indent and colors") {
  CHECK(fitted("one two three", 13) == "one two three");
  CHECK(fitted("one two three\n", 12) == "one two\nthree\n");
  CHECK(fitted("  one two three", 9) == "  one two\n  three");
  CHECK(fitted("incomprehensibilities of it", 10) == "incomprehensibilities\nof it");
  CHECK(fitted("\x1b[1mone\x1b[0m two", 7) == "\x1b[1mone\x1b[0m two");
  CHECK(fitted("\u2500\u2500\u2500 two", 7) == "\u2500\u2500\u2500 two");
  CHECK(fitted("", 7).empty());
  CHECK(fitted("one     ", 5) == "one");
}

TEST_CASE("long work shows its progress at a terminal") {
  const ScratchFolder scratch;
  const std::string out = (scratch / "out").string();
  const auto shown = [&](const std::vector<std::string>& words, const std::string& text) {
    Terminal terminal;
    StartedProgram program{words, out, terminal.name()};
    const std::string seen = terminal.read_until(text);
    INFO(words.front() << ": " << seen);
    CHECK_THAT(seen, ContainsSubstring(text));
  };
  const std::string small =
      scratch
          .write("small.json", R"({"schema": "millrace.workload/1", "batch_size": 10,
                "num_unweighted_features": 1, "activations": "1MiB"})")
          .string();
  shown({"footprint", "--workload", small, "--steps", "300000", "--seeds", "1", "--allocator",
         "torch", "--copy", "ring"},
        " steps, ");
  shown({"footprint", "--steps", "10000", "--seeds", "900"}, "sizes of batches: ");
  shown({"pipelines", "--steps", "20000", "--pipeline", "base"}, "pipelines: 0 of ");
  shown({"stream", "bench", "--steps", "100000"}, "stream bench: ");
}
