#pragma once

namespace millrace::model::cuda {

/** @brief Makes a GPU the thread's current one for the length of a scope. */
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
};

}  // namespace millrace::model::cuda
