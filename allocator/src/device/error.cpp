#include "millrace/device/error.hpp"

namespace millrace {

const char* to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::out_of_memory:
      return "out of memory";
    case ErrorCode::invalid_argument:
      return "invalid argument";
    case ErrorCode::not_supported:
      return "not supported";
    case ErrorCode::capture:
      return "not allowed while a stream is being captured";
    case ErrorCode::device_lost:
      return "device lost";
    case ErrorCode::unknown:
      break;
  }
  return "unknown error";
}

DeviceError::DeviceError(ErrorCode code, const std::string& call, const std::string& detail)
    : std::runtime_error(call + ": " + to_string(code) + (detail.empty() ? "" : ": " + detail)),
      code_(code) {}

}  // namespace millrace
