#include "test/tools/program.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

extern char** environ;

namespace millrace::test {

std::string read_file(const std::filesystem::path& file) {
  std::ifstream stream{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

StartedProgram::StartedProgram(const std::vector<std::string>& arguments, const std::string& out,
                               const std::string& err) {
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

ProgramRun run_program(const std::vector<std::string>& arguments) {
  const ScratchFolder scratch;
  const std::string out = (scratch / "out").string();
  const std::string err = (scratch / "err").string();
  StartedProgram program{arguments, out, err};
  const int exit_code = program.wait();
  return {exit_code, read_file(out), read_file(err)};
}

}  // namespace millrace::test
