#include "test/support/scratch_folder.hpp"

#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>

namespace millrace::test {

ScratchFolder::ScratchFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "millrace-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error{"no scratch folder"};
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path ScratchFolder::write(const std::string& name, const std::string& text) const {
  std::ofstream{path_ / name, std::ios::binary} << text;
  return path_ / name;
}

std::vector<std::string> ScratchFolder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator{path_}) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace millrace::test
