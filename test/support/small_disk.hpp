#pragma once

#include <sys/mount.h>

#include <filesystem>
#include <string>

namespace millrace::test {

/// A file system of `kilobytes` KiB in memory, mounted over a folder while the object lives.
class SmallDisk {
 public:
  SmallDisk(std::filesystem::path folder, unsigned kilobytes) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
    const std::string size = "size=" + std::to_string(kilobytes) + "k";
    mounted_ = ::mount("none", folder_.c_str(), "tmpfs", 0, size.c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  /// False without the right to mount.
  [[nodiscard]] bool is_there() const noexcept { return mounted_; }

 private:
  std::filesystem::path folder_;
  bool mounted_ = false;
};

}  // namespace millrace::test
