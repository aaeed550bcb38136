#include "test/tools/program.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>
#include <utility>

#include "test/support/catch.hpp"

extern char** environ;

namespace millrace::test {

std::string read_file(const std::filesystem::path& file) {
  std::ifstream stream{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

StartedProgram::StartedProgram(const std::vector<std::string>& arguments, const std::string& out,
                               const std::string& err, const std::filesystem::path& folder) {
  std::vector<std::string> words{MILLRACE_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, out.c_str(), O_WRONLY | O_CREAT | O_NOCTTY, 0600);
  posix_spawn_file_actions_addopen(&files, 2, err.c_str(), O_WRONLY | O_CREAT | O_NOCTTY, 0600);
  if (!folder.empty()) posix_spawn_file_actions_addchdir_np(&files, folder.c_str());
  const int failed = ::posix_spawn(&process_, argv[0], &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) throw std::runtime_error{"the program could not be started"};
}

StartedProgram::~StartedProgram() {
  if (process_ == 0) return;
  ::kill(process_, SIGKILL);
  static_cast<void>(wait());
}

void StartedProgram::signal(int number) const { ::kill(process_, number); }

int StartedProgram::wait() {
  int status = 0;
  ::waitpid(std::exchange(process_, 0), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

ProgramRun run_program(const std::vector<std::string>& arguments,
                       const std::filesystem::path& folder) {
  const ScratchFolder scratch;
  const std::string out = (scratch / "out").string();
  const std::string err = (scratch / "err").string();
  StartedProgram program{arguments, out, err, folder};
  const int exit_code = program.wait();
  return {exit_code, read_file(out), read_file(err)};
}

nlohmann::json document_of(const std::vector<std::string>& arguments,
                           const std::vector<std::string>& as_json) {
  const ProgramRun run = run_program(joined(arguments, as_json));
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  return nlohmann::json::parse(run.out);
}

std::string interrupted(const std::vector<std::string>& training, const ScratchFolder& scratch) {
  const std::string out = (scratch / "out").string();
  StartedProgram program{training, out, (scratch / "err").string()};
  for (int i = 0; i < 3000 && read_file(out).find("\n    2") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  program.signal(SIGINT);
  CHECK(program.wait() == 130);
  const std::string printed = read_file(out);
  CHECK_THAT(printed, Catch::Matchers::ContainsSubstring("interrupted") &&
                          Catch::Matchers::ContainsSubstring("saved"));
  return printed;
}

std::vector<std::string> joined(std::vector<std::string> first,
                                const std::vector<std::string>& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

}  // namespace millrace::test
