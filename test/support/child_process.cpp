#include "test/support/child_process.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

namespace millrace::test {
namespace {

constexpr int kPatienceMs = 10'000;

[[noreturn]] void fail(const char* what) {
  throw std::system_error{errno, std::generic_category(), what};
}

std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe");
  return ends;
}

int open_log(const std::string& log) {
  const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) fail(log.c_str());
  return file;
}

/// Makes only calls that are allowed between fork and exec.
[[noreturn]] void become(const char* path, char* const* argv, pid_t parent, int in, int out,
                         int error) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(126);
  ::dup2(in, 0);
  ::dup2(out, 1);
  ::dup2(error, 2);
  ::execv(path, argv);
  ::_exit(127);
}

}  // namespace

ChildProcess::ChildProcess(const std::string& path, const std::vector<std::string>& words,
                           const std::string& log, bool talks) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const int error = open_log(log);
  std::array<int, 2> in{::open("/dev/null", O_RDONLY | O_CLOEXEC), -1}, out{-1, error};
  if (talks) {
    ::close(in[0]);
    in = make_pipe();
    out = make_pipe();
  }
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ == 0) become(path.c_str(), argv.data(), parent, in[0], out[1], error);
  if (process_ < 0) fail("fork");
  to_ = in[1];
  from_ = out[0];
  ::close(in[0]);
  if (talks) ::close(out[1]);
  ::close(error);
}

bool ChildProcess::running() {
  if (process_ == 0) return false;
  if (::waitpid(process_, nullptr, WNOHANG) == process_) process_ = 0;
  return process_ != 0;
}

void ChildProcess::signal(int number) const {
  if (process_ == 0) return;
  ::kill(process_, number);
  siginfo_t stopped;
  while (number == SIGSTOP &&
         ::waitid(P_PID, static_cast<id_t>(process_), &stopped, WSTOPPED | WEXITED | WNOWAIT) < 0 &&
         errno == EINTR) {
  }
}

void ChildProcess::kill() {
  if (process_ != 0) {
    ::kill(process_, SIGKILL);
    ::waitpid(std::exchange(process_, 0), nullptr, 0);
  }
  for (int* const end : {&to_, &from_}) {
    if (*end >= 0) ::close(std::exchange(*end, -1));
  }
}

void ChildProcess::send_line(const std::string& line) {
  const std::string text = line + '\n';
  if (::write(to_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) fail("a pipe");
}

std::optional<std::string> ChildProcess::line() {
  for (;;) {
    if (const std::size_t end = read_.find('\n'); end != std::string::npos) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return line;
    }
    pollfd descriptor{.fd = from_, .events = POLLIN, .revents = 0};
    if (::poll(&descriptor, 1, kPatienceMs) <= 0) return std::nullopt;
    std::array<char, 512> some{};
    const ssize_t got = ::read(from_, some.data(), some.size());
    if (got <= 0) return std::nullopt;
    read_.append(some.data(), static_cast<std::size_t>(got));
  }
}

std::string find_program(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders{path == nullptr ? "" : path};
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = (std::filesystem::path{folder} / name).string();
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool known = ::bind(socket, any, length) == 0 && ::getsockname(socket, any, &length) == 0;
  ::close(socket);
  if (!known) fail("no port");
  return ntohs(address.sin_port);
}

}  // namespace millrace::test
