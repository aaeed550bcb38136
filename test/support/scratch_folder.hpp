#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace millrace::test {

/// A folder for the files of one test. It is removed with the object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const {
    return path_ / name;
  }
  [[nodiscard]] std::filesystem::path write(const std::string& name, const std::string& text) const;
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::filesystem::path path_;
};

}  // namespace millrace::test
