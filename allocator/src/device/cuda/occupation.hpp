#pragma once

namespace millrace::cuda {

inline constexpr unsigned kViewsOfALaunch = 100;

/** @brief A view of an operation, and how much of it the kernel reads or writes. */
struct SweptView {
  unsigned char* address;
  unsigned long long bytes;
  unsigned long long swept;  ///< number of bytes to sweep, from the front
  bool reads, writes;
};

/** @brief The arguments of the kernel that stands for an operation. */
struct Occupation {
  SweptView views[kViewsOfALaunch];
  unsigned view_count;
  unsigned slot;
  unsigned long long shared;  ///< nanoseconds for which every block runs
  unsigned long long alone;   ///< additional nanoseconds of the first block
};
static_assert(sizeof(Occupation) <= 4096, "what a kernel of any architecture can be given");

}  // namespace millrace::cuda
