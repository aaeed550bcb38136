#include <cstdlib>
#include <iostream>

#include "millrace/config.hpp"
#include "millrace/ordering/frontier.hpp"

int main() {
  millrace::Frontier frontier;
  const millrace::Point point{};
  frontier.advance(point);
  std::cout << "millrace " << MILLRACE_VERSION << '\n';
  return frontier.covers(point) ? EXIT_SUCCESS : EXIT_FAILURE;
}
