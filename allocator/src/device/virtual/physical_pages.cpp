#include "device/virtual/physical_pages.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "device/virtual/host_memory.hpp"

namespace millrace::simulation {

PhysicalPages::PhysicalPages(std::size_t page_bytes, std::size_t most_bytes, bool data)
    : page_bytes_(page_bytes) {
  if (data) file_ = make_memory_file("millrace virtual device's pages", most_bytes);
}

PhysicalPages::~PhysicalPages() {
  if (file_ >= 0) close(file_);
}

PhysicalPages::Page PhysicalPages::take() {
  Page page = mappings_.size();
  if (free_.empty()) {
    mappings_.push_back(1);
  } else {
    page = free_.extract(free_.begin()).value();
    mappings_[page] = 1;
  }
  ++used_;
  return page;
}

void PhysicalPages::drop(Page page) {
  if (--mappings_[page] > 0) return;
  free_.insert(page);
  --used_;
  if (file_ < 0) return;
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(page * page_bytes_), static_cast<off_t>(page_bytes_));
}

void PhysicalPages::show(Page page, std::byte* address) const {
  map_memory(address, page_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_,
             page * page_bytes_);
  poison(address, page_bytes_);
}

}  // namespace millrace::simulation
