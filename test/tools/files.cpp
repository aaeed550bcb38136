#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/error.hpp"
#include "cli/program.hpp"
#include "test/support/catch.hpp"
#include "test/tools/file_options.hpp"
#include "test/tools/program.hpp"

using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

/// A place and another name for it.
struct Alias {
  std::string what;
  std::function<std::string(const ScratchFolder&, bool folder)> place, alias;
};

std::string make(const ScratchFolder& scratch, bool folder) {
  if (!folder) return scratch.write("one", "content").string();
  fs::create_directory(scratch / "one");
  static_cast<void>(scratch.write("one/inside", "content"));
  return (scratch / "one").string();
}

std::string name_only(const ScratchFolder& scratch, bool) { return (scratch / "one").string(); }

std::vector<Alias> aliases() {
  const auto same = name_only;
  const auto relative = [](const ScratchFolder& scratch, bool) {
    return fs::relative(scratch / "one").string();
  };
  const auto roundabout = [](const ScratchFolder& scratch, bool) {
    fs::create_directory(scratch / "other");
    return (scratch / "other/.././one").string();
  };
  const auto symbolic = [](const ScratchFolder& scratch, bool) {
    fs::create_symlink("one", scratch / "link");
    return (scratch / "link").string();
  };
  const auto by_folder = [](const ScratchFolder& scratch, bool) {
    fs::create_directory_symlink(scratch.path(), scratch / "up");
    return (scratch / "up/one").string();
  };
  const auto hard = [](const ScratchFolder& scratch, bool folder) {
    if (folder) return (scratch / "one").string();  // folders have no hard links
    fs::create_hard_link(scratch / "one", scratch / "hard");
    return (scratch / "hard").string();
  };
  return {{"by path", make, same},
          {"by a relative path", make, relative},
          {"by a roundabout path", make, roundabout},
          {"by a symbolic link", make, symbolic},
          {"by a link to its folder", make, by_folder},
          {"by a hard link", make, hard},
          {"not there yet, by path", name_only, same},
          {"not there yet, by a relative path", name_only, relative},
          {"not there yet, by a symbolic link", name_only, symbolic},
          {"not there yet, by a link to its folder", name_only, by_folder}};
}

/// The names of everything in a folder, and the contents of its regular files.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator{folder}) {
    const bool file = entry.is_regular_file() && !entry.is_symlink();
    all[entry.path().string()] = file ? read_file(entry.path()) : "";
  }
  return all;
}

bool may_be_one(const FileOption& one, const FileOption& other) {
  return (one.shown == "--save" && other.shown == "--load") ||
         (one.shown == "--load" && other.shown == "--save");
}

/// The words of a command with these places. Every other option that is required gets its own
/// place.
std::vector<std::string> command_words(const CommandFiles& command, const ScratchFolder& scratch,
                                       const std::map<std::string, std::string>& places) {
  std::vector<std::string> words = command.words;
  for (const FileOption& option : command.options) {
    const auto given = places.find(option.name);
    if (given == places.end() && !option.required) continue;
    const std::string place =
        given != places.end() ? given->second : (scratch / ("of " + option.name)).string();
    for (const std::string& word : option.words(place)) words.push_back(word);
  }
  if (command.words == std::vector<std::string>{"run"}) words.insert(words.end(), {"--", "true"});
  return words;
}

/// The refusal of the program's parser, run in this process; empty if it refuses nothing.
std::string parse_refusal(const std::vector<std::string>& words) {
  std::vector<const char*> argv{"millrace"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  try {
    millrace::cli::make_program()->parse(static_cast<int>(argv.size()), argv.data());
  } catch (const millrace::cli::UsageError& error) {
    return fmt::format("{}\n{}", error.what(), error.where());
  }
  return "";
}

void check_alias_refused(const CommandFiles& command, const ScratchFolder& scratch,
                         const FileOption& one, const std::string& place, const FileOption& other,
                         const std::string& alias) {
  const auto before = contents(scratch.path());
  const std::string said =
      parse_refusal(command_words(command, scratch, {{one.name, place}, {other.name, alias}}));
  INFO(fmt::format("{} with {} {} and {} {}:\n{}", fmt::join(command.words, " "), one.shown, place,
                   other.shown, alias, said));
  CHECK_THAT(said, ContainsSubstring(one.shown) && ContainsSubstring(other.shown));
  CHECK(contents(scratch.path()) == before);
}

/// Calls `check` for each pair of options of a command of which at least one is written.
template <typename Check>
void each_pair(Check check) {
  for (const CommandFiles& command : all_commands()) {
    for (std::size_t i = 0; i < command.options.size(); ++i) {
      for (std::size_t j = i + 1; j < command.options.size(); ++j) {
        const FileOption &one = command.options[i], &other = command.options[j];
        if ((one.written || other.written) && !may_be_one(one, other)) check(command, one, other);
      }
    }
  }
}

}  // namespace

TEST_CASE("files: the options of all commands say which of them name a file") {
  std::size_t written = 0, read = 0;
  for (const CommandFiles& command : all_commands()) {
    for (const FileOption& option : command.options) ++(option.written ? written : read);
  }
  CHECK(written >= 16);
  CHECK(read >= 10);
}

TEST_CASE("files: no output may be an input or another output under any name") {
  const Alias alias = GENERATE(from_range(aliases()));
  each_pair([&](const CommandFiles& command, const FileOption& one, const FileOption& other) {
    const ScratchFolder scratch;
    const bool folder = one.sink && other.sink;
    if (one.sink != other.sink) return;  // a folder and a file: tested below
    const std::string place = alias.place(scratch, folder);
    INFO(alias.what);
    check_alias_refused(command, scratch, one, place, other, alias.alias(scratch, folder));
  });
}

TEST_CASE("files: a command that would destroy a file ends with 2 and one message") {
  std::vector<std::string> last;
  each_pair([&](const CommandFiles& command, const FileOption& one, const FileOption& other) {
    if (command.words == last || one.sink != other.sink) return;
    last = command.words;
    const ScratchFolder scratch;
    const std::string place = make(scratch, one.sink);
    const auto before = contents(scratch.path());
    const ProgramRun run =
        run_program(command_words(command, scratch, {{one.name, place}, {other.name, place}}));
    INFO(run.err);
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK_THAT(run.err, ContainsSubstring(one.shown) && ContainsSubstring(other.shown));
    CHECK(std::ranges::count(run.err, '\n') <= 3);
    CHECK(contents(scratch.path()) == before);
  });
}

TEST_CASE("files: no file in a sink's folder may be an input or an output") {
  const std::string inside = GENERATE("inside", "new", "deep/er");
  each_pair([&](const CommandFiles& command, const FileOption& one, const FileOption& other) {
    if (!one.sink && !other.sink) return;
    const ScratchFolder scratch;
    const std::string folder = make(scratch, true);
    const std::string within = (scratch / "one" / inside).string();
    if (one.sink) check_alias_refused(command, scratch, one, folder, other, within);
    if (other.sink) check_alias_refused(command, scratch, one, within, other, folder);
  });
}

TEST_CASE("files: an output may not be a file of the data set") {
  const ScratchFolder scratch;
  for (const char* const file : {"adult.data", "adult.test"}) {
    static_cast<void>(scratch.write(file, "an example"));
  }
  const std::string folder = "adult:" + scratch.path().string();
  for (const char* const option : {"--save", "--json", "--timeline"}) {
    for (const char* const file : {"adult.data", "adult.test"}) {
      CHECK_THAT(parse_refusal({"train", "--data", folder, option, (scratch / file).string()}),
                 ContainsSubstring("--data") && ContainsSubstring(option));
      CHECK(read_file(scratch / file) == "an example");
    }
  }
}

TEST_CASE("files: an output may not be a secret or a certificate that an address names") {
  const ScratchFolder scratch;
  const std::string file = scratch.write("file", "secret").string();
  for (const std::string& sink :
       {"redis://h?password-file=" + file, "rediss://h?db=1&ca=" + file,
        "rediss://h?cert=x&key=" + file, "kafka://h/t?ssl.ca.location=" + file,
        "kafka://h/t?sasl.password-file=" + file}) {
    CHECK_THAT(parse_refusal({"train", "--data", "synthetic", "--stream", sink, "--save", file}),
               ContainsSubstring("--stream") && ContainsSubstring("--save"));
  }
  // Two sinks may read the same file.
  const std::string said =
      parse_refusal({"train", "--data", "synthetic", "--stream", "redis://a?password-file=" + file,
                     "--stream", "redis://b?password-file=" + file, "--save", "-"});
  CHECK_THAT(said, ContainsSubstring("standard output"));
}

TEST_CASE("files: two outputs may not both go to standard output") {
  const ScratchFolder scratch;
  for (const CommandFiles& command : all_commands()) {
    for (const FileOption& one : command.options) {
      if (!one.written || one.sink || one.shown == "-o" || one.shown == "--json") continue;
      const std::string said = parse_refusal(command_words(command, scratch, {{one.name, "-"}}));
      INFO(fmt::format("{} {}: {}", fmt::join(command.words, " "), one.shown, said));
      CHECK_THAT(said, ContainsSubstring(one.shown) && ContainsSubstring("standard output"));
    }
  }
  const ProgramRun run = run_program({"train", "--data", "synthetic", "--timeline", "/dev/stdout"});
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, ContainsSubstring("--timeline") && ContainsSubstring("standard output"));
}

TEST_CASE("files: several outputs may go to /dev/null") {
  const ProgramRun run = run_program({"train", "--data", "synthetic", "--examples", "64",
                                      "--batch-size", "32", "--epochs", "1", "--save", "/dev/null",
                                      "--json", "/dev/null", "--timeline", "/dev/null"});
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("files: a path to standard output counts as standard output") {
  const ScratchFolder scratch;
  const std::string out = (scratch / "out").string(), err = (scratch / "err").string();
  const std::string name = GENERATE("/dev/stdout", "out", "-");
  const std::string place = name == "out" ? scratch.write("out", "").string() : name;
  StartedProgram program{{"train", "--data", "synthetic", "--examples", "64", "--batch-size", "32",
                          "--epochs", "1", "--json", place},
                         out,
                         err};
  CHECK(program.wait() == 0);
  CHECK(read_file(out).starts_with("{\n"));
  CHECK(read_file(out).ends_with("}\n"));
}

TEST_CASE("files: training may load a checkpoint and save to the same file") {
  const ScratchFolder scratch;
  const std::string file = (scratch / "k.ckpt").string(), link = (scratch / "link").string();
  fs::create_symlink("k.ckpt", link);
  const auto train = [&](const std::string& epochs, std::vector<std::string> more) {
    std::vector<std::string> words{"train", "--data",       "synthetic", "--examples",
                                   "64",    "--batch-size", "32",        "--epochs",
                                   epochs,  "--save",       link};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramRun run = run_program(words);
    INFO(run.err);
    CHECK(run.exit_code == 0);
  };
  train("1", {});
  const std::string first = read_file(file);
  train("2", {"--load", file});
  CHECK(read_file(file) != first);
  CHECK(fs::is_symlink(link));
  CHECK(scratch.names() == std::vector<std::string>{"k.ckpt", "link"});
}
