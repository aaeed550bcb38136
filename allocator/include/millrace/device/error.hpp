#pragma once

#include <stdexcept>
#include <string>

namespace millrace {

/** @brief The kinds of driver errors that callers distinguish. */
enum class ErrorCode {
  out_of_memory,     ///< nothing has changed; a smaller request, or freeing memory, may help
  invalid_argument,  ///< the device does not know the handle, pointer or size
  not_supported,     ///< the device does not have this feature
  capture,           ///< the call is not allowed while a stream is being captured
  device_lost,       ///< sticky: the context is lost, every later call fails
  unknown,
};

/** @brief Returns the code's name, for messages. */
[[nodiscard]] const char* to_string(ErrorCode code) noexcept;

/** @brief The error of a device call that failed. The call had no effect. */
class DeviceError : public std::runtime_error {
 public:
  /**
   * @param call    the call and its arguments
   * @param code    the kind of the error
   * @param detail  what went wrong
   */
  DeviceError(ErrorCode code, const std::string& call, const std::string& detail);

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  /**
   * @brief Returns whether every later call on this device fails too. Only a new process helps
   *        then.
   */
  [[nodiscard]] bool sticky() const noexcept { return code_ == ErrorCode::device_lost; }

 private:
  ErrorCode code_;
};

}  // namespace millrace
