#pragma once

#include <stdexcept>
#include <string>

namespace millrace {

/** @brief What a driver call that failed said, in the few kinds that callers tell apart. */
enum class ErrorCode {
  out_of_memory,     ///< nothing has changed; asking for less, or freeing, may help
  invalid_argument,  ///< a handle, pointer or size that the device does not know
  not_supported,     ///< the device has no such feature
  capture,           ///< the call is not allowed while a stream is being captured
  device_lost,       ///< sticky: the context is gone, every later call fails
  unknown,
};

[[nodiscard]] const char* to_string(ErrorCode code) noexcept;

/** @brief A device call failed. Nothing that the call would have done has been published. */
class DeviceError : public std::runtime_error {
 public:
  /** @param call  the call and its arguments; `code` and `detail` say what went wrong */
  DeviceError(ErrorCode code, const std::string& call, const std::string& detail);

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  /** @brief Every later call on this device will fail too; only a new process helps. */
  [[nodiscard]] bool sticky() const noexcept { return code_ == ErrorCode::device_lost; }

 private:
  ErrorCode code_;
};

}  // namespace millrace
