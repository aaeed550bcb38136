#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace millrace::simulation {

/** @brief Gives handle values to objects. The value of the object removed last is reused first. */
template <typename T>
class HandleTable {
 public:
  explicit HandleTable(std::uintptr_t base) : base_(base) {}

  void* add(std::unique_ptr<T> object) {
    if (free_.empty()) {
      // Room for every slot, so that `remove` allocates nothing.
      if (free_.capacity() <= objects_.size()) free_.reserve(2 * objects_.size() + 8);
      objects_.emplace_back();
      free_.push_back(objects_.size() - 1);
    }
    const std::size_t slot = free_.back();
    free_.pop_back();
    objects_[slot] = std::move(object);
    return reinterpret_cast<void*>(base_ + slot * kStride);
  }

  [[nodiscard]] T* find(const void* handle) const noexcept {
    const std::size_t slot = slot_of(handle);
    return slot < objects_.size() ? objects_[slot].get() : nullptr;
  }

  /** @brief Removes and returns the object. `find` must know the handle. */
  std::unique_ptr<T> remove(const void* handle) {
    const std::size_t slot = slot_of(handle);
    free_.push_back(slot);
    return std::exchange(objects_[slot], nullptr);
  }

 private:
  static constexpr std::uintptr_t kStride = 64;

  [[nodiscard]] std::size_t slot_of(const void* handle) const noexcept {
    const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(handle) - base_;
    return offset % kStride == 0 ? offset / kStride : objects_.size();
  }

  std::uintptr_t base_;
  std::vector<std::unique_ptr<T>> objects_;
  std::vector<std::size_t> free_;
};

}  // namespace millrace::simulation
