#include "train/interrupt.hpp"

namespace millrace::cli {
namespace {

volatile std::sig_atomic_t asked_to_stop = 0;

extern "C" void ask_to_stop(int signal) { asked_to_stop = signal; }

}  // namespace

Interrupt::Interrupt() {
  asked_to_stop = 0;
  struct sigaction action {};
  action.sa_handler = ask_to_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &before_int_);
  ::sigaction(SIGTERM, &action, &before_term_);
}

Interrupt::~Interrupt() {
  ::sigaction(SIGINT, &before_int_, nullptr);
  ::sigaction(SIGTERM, &before_term_, nullptr);
}

bool Interrupt::asked() const noexcept { return asked_to_stop != 0; }

int Interrupt::exit_code() const noexcept { return 128 + (asked() ? asked_to_stop : SIGINT); }

}  // namespace millrace::cli
