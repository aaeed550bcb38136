// Reports of programs that do not end by exit: _exit, quick_exit, and signals that end a process.
//
// A signal may arrive while its thread holds any lock, and a handler may call _exit. So a separate
// thread writes the report. The thread that ends the process waits for the report, for a limited
// time. Signals that the program handles or ignores are not taken over. After the report, the
// signal ends the process as usual.

#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "exports/entry.hpp"
#include "report/at_exit.hpp"

namespace millrace::interpose {
namespace {

constexpr int kMostSeconds = 20;

struct EndingSignal {
  int number;
  const char* name;
};
constexpr std::array kSignals{EndingSignal{SIGTERM, "SIGTERM"}, EndingSignal{SIGINT, "SIGINT"},
                              EndingSignal{SIGHUP, "SIGHUP"},   EndingSignal{SIGABRT, "SIGABRT"},
                              EndingSignal{SIGSEGV, "SIGSEGV"}, EndingSignal{SIGBUS, "SIGBUS"},
                              EndingSignal{SIGFPE, "SIGFPE"},   EndingSignal{SIGILL, "SIGILL"}};

sem_t wanted, written;
std::atomic<const char*> ended_by{nullptr};
// The process that has the reporter. A forked child has none, and a child of vfork must not use its
// parent's.
std::atomic<pid_t> reporter_of{0};

void* report_when_wanted(void*) {
  while (sem_wait(&wanted) != 0) {
  }
  report_once(ended_by);
  sem_post(&written);
  return nullptr;
}

void say(const char* text) { static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text))); }

/** Makes only calls that are safe in a signal handler. */
void report_before_end(const char* name) noexcept {
  if (reporter_of != getpid() || report_has_begun()) return;
  const char* none = nullptr;
  if (!ended_by.compare_exchange_strong(none, name)) return;  // another thread ends the process
  sem_post(&wanted);
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += kMostSeconds;
  int result = 0;
  do {
    result = sem_timedwait(&written, &until);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return;
  say("millrace run: the program ended by ");
  say(name);
  say(", and its report could not be written in time; a trace of --record is whole up to there\n");
}

void end_by(int number, siginfo_t* information, void*) {
  const int saved = errno;
  for (const EndingSignal& each : kSignals) {
    if (each.number == number) report_before_end(each.name);
  }
  errno = saved;
  // Resets the handler again, because a handler of the program may have called this one. A faulting
  // instruction causes its signal again.
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(number, &action, nullptr);
  const bool is_fault =
      number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL;
  const bool comes_back = is_fault && information->si_code > 0;
  if (!comes_back) static_cast<void>(raise(number));
}

void take_over(int number) {
  struct sigaction before {};
  if (sigaction(number, nullptr, &before) != 0) return;
  if ((before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL) return;
  struct sigaction action {};
  action.sa_sigaction = end_by;
  action.sa_flags = SA_SIGINFO | static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

/** Blocks all signals in the reporter, so that it runs none of the program's handlers. */
bool start_reporter() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const bool started = pthread_create(&thread, nullptr, report_when_wanted, nullptr) == 0;
  if (started) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

void watch_for_ends() {
  const Settings& settings = Process::get().settings;
  if (settings.report.empty() && settings.json.empty() && settings.snapshot.empty()) return;
  sem_init(&wanted, 0, 0);
  sem_init(&written, 0, 0);
  if (!start_reporter()) return;
  reporter_of = getpid();
  at_quick_exit([] { report_before_end("quick_exit"); });
  for (const EndingSignal& each : kSignals) take_over(each.number);
}

__attribute__((constructor)) void be_called_before_service() {
  Process::before_service = watch_for_ends;
}

[[noreturn]] void end_now(int code) {
  for (;;) syscall(SYS_exit_group, code);
}

}  // namespace
}  // namespace millrace::interpose

MILLRACE_EXPORT void _exit(int code) {
  millrace::interpose::report_before_end("_exit");
  millrace::interpose::end_now(code);
}

MILLRACE_EXPORT void _Exit(int code) noexcept {
  millrace::interpose::report_before_end("_exit");
  millrace::interpose::end_now(code);
}
