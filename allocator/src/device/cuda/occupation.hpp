#pragma once

namespace millrace::cuda {

inline constexpr unsigned kViewsOfALaunch = 100;

/** @brief A view of an operation, and how much of it the kernel reads or writes. */
struct SweptView {
  unsigned char* address;
  unsigned long long bytes;
  unsigned long long swept;  ///< of its bytes, from the front
  bool reads, writes;
};

/** @brief What the kernel that stands for an operation is given. */
struct Occupation {
  SweptView views[kViewsOfALaunch];
  unsigned view_count;
  unsigned slot;
  unsigned long long shared;  ///< nanoseconds that every block stays
  unsigned long long alone;   ///< and how much longer the first one does
};
static_assert(sizeof(Occupation) <= 4096, "what a kernel of any architecture can be given");

}  // namespace millrace::cuda
