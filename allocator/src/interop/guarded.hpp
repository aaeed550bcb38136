#pragma once

#include <exception>
#include <new>
#include <stdexcept>

#include "millrace.h"
#include "millrace/device/error.hpp"

namespace millrace {

/** @brief Stores a failure for the calling thread's millrace_last_error(). @return `status` */
millrace_status fail(millrace_status status, const char* text) noexcept;

[[nodiscard]] millrace_status status_of(ErrorCode code) noexcept;

class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/** @brief Runs `call` and turns an exception into a status. Every function of the C interface uses
 *         it, so that none of them throws. */
template <typename Call>
millrace_status guarded(const Call& call) noexcept {
  try {
    call();
    return MILLRACE_OK;
  } catch (const DeviceError& error) {
    return fail(status_of(error.code()), error.what());
  } catch (const std::bad_alloc& error) {  // OutOfMemory of the GPU, or no host memory
    return fail(MILLRACE_OUT_OF_MEMORY, error.what());
  } catch (const FileError& error) {
    return fail(MILLRACE_FILE, error.what());
  } catch (const std::logic_error& error) {
    return fail(MILLRACE_INVALID_ARGUMENT, error.what());
  } catch (const std::exception& error) {
    return fail(MILLRACE_UNKNOWN, error.what());
  } catch (...) {
    return fail(MILLRACE_UNKNOWN, "something that is not a std::exception was thrown");
  }
}

}  // namespace millrace
