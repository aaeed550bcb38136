// The code jumps to another stack on purpose. glibc's check of longjmp would refuse that.
#undef _FORTIFY_SOURCE
#include "test/kernels/fiber.hpp"

namespace millrace::test::kernels {
namespace {

constexpr std::size_t kStack = std::size_t{256} << 10;

}  // namespace

Fiber::Fiber(void (*body)(), std::size_t apart)
    : body_(body), apart_(apart), stack_(new std::byte[kStack]) {
  restart();
}

void Fiber::restart() {
  begun_ = false;
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_.get();
  context_.uc_stack.ss_size = kStack - apart_;
  context_.uc_link = nullptr;
  makecontext(&context_, body_, 0);
}

#ifdef __SANITIZE_ADDRESS__
void Fiber::go_on(Fiber& from, Fiber& to) { swapcontext(&from.context_, &to.context_); }
#else
void Fiber::go_on(Fiber& from, Fiber& to) {
  if (_setjmp(from.place_) != 0) return;
  if (to.begun_) _longjmp(to.place_, 1);
  to.begun_ = true;
  setcontext(&to.context_);
}
#endif

}  // namespace millrace::test::kernels
