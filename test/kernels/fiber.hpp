#pragma once

#include <ucontext.h>

#include <csetjmp>
#include <cstddef>
#include <memory>

namespace millrace::test::kernels {

/**
 * @brief A stack and a place in the code that it runs. Switching between fibers takes no call of
 * the system, except under AddressSanitizer, which knows swapcontext.
 */
class Fiber {
 public:
  /** @brief The caller's own stack. */
  Fiber() = default;
  /** @brief A stack of its own, which has `body` to run. @param apart  bytes that are left out of
   * it */
  Fiber(void (*body)(), std::size_t apart);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /** @brief Leaves whatever it ran; `body` begins anew. It must not be the running one. */
  void restart();
  /** @brief Runs `to` where it was left. `from`, which is the running one, is left here. */
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
