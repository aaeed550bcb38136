#include "memory/shared_files.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace millrace::virtual_cuda {

int SharedFiles::make(std::uint64_t object) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return -1;
  struct stat about {};
  if (fstat(ends[0], &about) != 0) {
    close(ends[0]);
    close(ends[1]);
    return -1;
  }
  all_.push_back({ends[0], about.st_dev, about.st_ino, object});
  return ends[1];
}

std::optional<std::uint64_t> SharedFiles::find(int file) const {
  struct stat about {};
  if (fstat(file, &about) != 0) return std::nullopt;
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const Shared& shared) {
    return shared.device == about.st_dev && shared.inode == about.st_ino;
  });
  if (found == all_.end()) return std::nullopt;
  return found->object;
}

std::vector<std::uint64_t> SharedFiles::take_closed() {
  std::vector<std::uint64_t> objects;
  std::erase_if(all_, [&](const Shared& shared) {
    pollfd asked{shared.kept, 0, 0};
    if (poll(&asked, 1, 0) != 1 || (asked.revents & POLLHUP) == 0) return false;
    close(shared.kept);
    objects.push_back(shared.object);
    return true;
  });
  return objects;
}

bool may_be_of_another_process(int file) {
  struct stat about {};
  return fstat(file, &about) == 0 && S_ISFIFO(about.st_mode);
}

}  // namespace millrace::virtual_cuda
