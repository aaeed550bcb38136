#include "allocator/measure/draws.hpp"

#include <cmath>
#include <map>
#include <random>
#include <tuple>

namespace millrace::bench {

std::vector<Draw> Draws::draw(std::uint64_t seed, double smallest, double largest) {
  std::mt19937_64 random{seed};
  std::uniform_real_distribution<double> log{std::log(smallest), std::log(largest)};
  std::vector<Draw> all(kCount);
  for (Draw& draw : all) {
    draw.bytes = static_cast<std::size_t>(std::exp(log(random)));
    draw.choice = static_cast<std::uint32_t>(random());
  }
  return all;
}

Draws::Draws(std::uint64_t seed, double smallest, double largest) {
  static std::map<std::tuple<std::uint64_t, double, double>,
                  std::shared_ptr<const std::vector<Draw>>>
      known;
  auto& drawn = known[{seed, smallest, largest}];
  if (drawn == nullptr) {
    drawn = std::make_shared<const std::vector<Draw>>(draw(seed, smallest, largest));
  }
  all_ = drawn;
  first_ = all_->data();
}

}  // namespace millrace::bench
