#pragma once

#include <ucontext.h>

#include <csetjmp>
#include <cstddef>
#include <memory>

namespace millrace::test::kernels {

/**
 * @brief A stack and the place in the code that it runs. A switch between fibers makes no system
 * call, except under AddressSanitizer, which supports only swapcontext.
 */
class Fiber {
 public:
  /** @brief The caller's own stack. */
  Fiber() = default;
  /** @brief A new stack that will run `body`. @param apart  bytes at its end that are not used */
  Fiber(void (*body)(), std::size_t apart);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /** @brief Drops whatever the fiber ran; `body` begins again. The fiber must not be running. */
  void restart();
  /** @brief Continues `to` where it stopped. Stops `from`, which must be the running fiber. */
  static void go_on(Fiber& from, Fiber& to);

 private:
  ucontext_t context_{};
  std::jmp_buf place_{};
  bool begun_ = true;
  void (*body_)() = nullptr;
  std::size_t apart_ = 0;
  std::unique_ptr<std::byte[]> stack_;
};

}  // namespace millrace::test::kernels
