#pragma once

namespace millrace {

/** @brief Marks the calling thread as running a host callback, where no driver call is allowed. */
class HostCallbackScope {
 public:
  HostCallbackScope() noexcept;
  ~HostCallbackScope();
  HostCallbackScope(const HostCallbackScope&) = delete;
  HostCallbackScope& operator=(const HostCallbackScope&) = delete;
};

}  // namespace millrace
