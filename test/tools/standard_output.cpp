#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "test/support/catch.hpp"
#include "test/tools/file_options.hpp"
#include "test/tools/program.hpp"

using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

/// A quick run of each command that succeeds and prints something. A new command needs an entry.
std::map<std::string, Words> examples(const ScratchFolder& scratch) {
  const std::string sink = "file:" + (scratch / "sink").string();
  const std::string copy = "file:" + (scratch / "copy").string();
  const std::string checkpoint = (scratch / "k.ckpt").string();
  const Words train{"train",        "--data", "synthetic", "--examples", "64",
                    "--batch-size", "32",     "--epochs",  "1"};
  Words streamed = train;
  streamed.insert(streamed.end(), {"--stream", sink, "--save", checkpoint});
  REQUIRE(run_program(streamed).exit_code == 0);
  const std::string trace = scratch.write("trace.csv", "id,lower,upper,size\n1,0,3,512\n").string();
  return {
      {"footprint",
       {"footprint", "--workload", "train_pipeline_base", "--allocator", "torch", "--copy", "ring",
        "--steps", "5", "--seeds", "1", "--batch-bytes", "1MiB"}},
      {"pipelines",
       {"pipelines", "--pipeline", "base", "--copy", "ring", "--allocator", "torch", "--steps", "2",
        "--ranks", "1", "--batch-size", "8", "--seeds", "1"}},
      {"explain", {"explain", trace}},
      {"replay", {"replay", "--allocator", "torch", trace}},
      {"train", train},
      {"doctor", {"doctor"}},
      {"run",
       {"run", "--allocator", "own", "--virtual", "instant", "--", MILLRACE_PROGRAM, "replay",
        trace}},
      {"stream apply", {"stream", "apply", "--from", sink, "--to", copy, "--until-idle", "0.2"}},
      {"stream status", {"stream", "status", sink}},
      {"stream verify", {"stream", "verify", sink, checkpoint}},
      {"stream bench",
       {"stream", "bench", "--rows", "40", "--table-rows", "400", "--steps", "2", "--capture",
        "sync"}},
  };
}

struct Ending {
  int exit_code = 0;
  std::string err;
};

/// Runs the program with its standard output in the file `out`.
Ending run_into(const std::string& out, const Words& words) {
  const ScratchFolder scratch;
  const std::string err = (scratch / "err").string();
  StartedProgram program{words, out, err};
  const int exit_code = program.wait();
  return {exit_code, read_file(err)};
}

std::size_t messages(const std::string& err) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = err.find("millrace", at)) != std::string::npos; ++at) {
    count += at == 0 || err[at - 1] == '\n' ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("standard output: every command ends with an error if the disk is full") {
  const ScratchFolder scratch;
  const std::map<std::string, Words> all = examples(scratch);
  for (const CommandFiles& command : all_commands()) {
    const std::string name = fmt::format("{}", fmt::join(command.words, " "));
    INFO(name << ": a command needs an example here");
    REQUIRE(all.contains(name));
    Words help = command.words;
    help.emplace_back("--help");
    for (const Words& words : {all.at(name), help}) {
      const Ending ending = run_into("/dev/full", words);
      INFO(fmt::format("{}\n{}", fmt::join(words, " "), ending.err));
      CHECK(ending.exit_code == 2);
      CHECK_THAT(ending.err, ContainsSubstring("standard output") && ContainsSubstring("No space"));
      CHECK(messages(ending.err) == 1);
    }
    const ProgramRun run = run_program(all.at(name));
    INFO(run.err);
    CHECK(run.exit_code == 0);
    CHECK(!run.out.empty());
  }
  CHECK(run_into("/dev/full", {"--version"}).exit_code == 2);
  CHECK(run_into("/dev/full", {"--help"}).exit_code == 2);
}

TEST_CASE("standard output: a full disk is an error for every file that a command writes") {
  const ScratchFolder scratch;
  const std::map<std::string, Words> all = examples(scratch);
  for (const CommandFiles& command : all_commands()) {
    const std::string name = fmt::format("{}", fmt::join(command.words, " "));
    for (const FileOption& option : command.options) {
      if (!option.written || option.sink || option.name == "--rendezvous") continue;
      Words words = all.at(name);
      const bool of_run = name == "run";
      // These options imply an allocator, so `--allocator own` must go.
      if (of_run) words.erase(words.begin() + 1, words.begin() + 3);
      const Words given = option.words("/dev/full");
      const auto after = static_cast<std::ptrdiff_t>(command.words.size());
      words.insert(words.begin() + after, given.begin(), given.end());  // before what `run` runs
      const ProgramRun run = run_program(words);
      INFO(fmt::format("{}\n{}", fmt::join(words, " "), run.err));
      CHECK(run.exit_code == 2);
      CHECK_THAT(run.err, ContainsSubstring("/dev/full"));
      // `run` replaces only files of its own kinds, so it refuses this one for another reason.
      if (!of_run) CHECK_THAT(run.err, ContainsSubstring("No space"));
      CHECK(fs::is_character_file("/dev/full"));
    }
  }
}

TEST_CASE("standard output: a closed reader ends the program by SIGPIPE") {
  const ScratchFolder scratch;
  const std::string pipe = (scratch / "pipe").string(), err = (scratch / "err").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  StartedProgram program{{"train", "--data", "synthetic", "--examples", "64", "--batch-size", "32",
                          "--epochs", "100000"},
                         pipe,
                         err};
  char letter = 0;
  while (::read(reader, &letter, 1) != 1) ::usleep(1000);
  ::close(reader);
  CHECK(program.wait() == -1);  // by SIGPIPE
  CHECK(read_file(err).empty());
}

TEST_CASE("standard output: a program without standard output fails and keeps its files intact") {
  const ScratchFolder scratch;
  const std::string file = (scratch / "file").string(), err = (scratch / "err").string();
  const std::string command = fmt::format(
      "'{}' train --data synthetic --examples 64 --batch-size 32 --epochs 1 "
      "--json '{}' >&- 2>'{}'",
      MILLRACE_PROGRAM, file, err);
  const int status = std::system(command.c_str());
  CHECK(WEXITSTATUS(status) == 2);
  CHECK_THAT(read_file(err), ContainsSubstring("standard output"));
  CHECK(read_file(file).starts_with("{\n"));
}

TEST_CASE("standard output: no temporary file of a killed run survives the next run") {
  const ScratchFolder scratch;
  const std::string file = (scratch / "k.ckpt").string();
  const std::string out = (scratch / "out").string();
  const auto train = [&](const std::string& steps) {
    return Words{"train",        "--data", "synthetic", "--examples",   "64",
                 "--batch-size", "8",      "--steps",   steps,          "--epochs",
                 "1000000",      "--save", file,        "--save-every", "1"};
  };
  for (int i = 0; i < 5; ++i) {
    StartedProgram program{train("1000000"), out, out};
    while (!fs::exists(file)) ::usleep(1000);
    ::usleep(static_cast<useconds_t>(3000 * i));
    program.signal(SIGKILL);
    CHECK(program.wait() == -1);
  }
  CHECK(run_program(train("1")).exit_code == 0);
  CHECK(scratch.names() == std::vector<std::string>{"k.ckpt", "out"});
}
