#include "ordering/epoch_log.hpp"

#include <map>
#include <random>

#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace::ordering {
namespace {

/// A model of the log that counts a stream's numbers one by one.
struct Counted {
  EpochLog log;
  Marker epoch = 0;
  Marker next = 1;
  std::map<Marker, Marker> taken;  ///< by epoch

  Counted() { log.note(epoch, next); }
  void begin_epoch() { taken[++epoch] = next++; }
  void record() { log.note(epoch, ++next); }
};

TEST_CASE("an epoch log finds the number of each epoch and the first epoch of each number") {
  std::mt19937_64 random{test::seed()};
  for (int program = 0; program < 200; ++program) {
    Counted stream;
    for (int i = 0; i < 40; ++i) random() % 3 == 0 ? stream.record() : stream.begin_epoch();
    for (const auto& [epoch, number] : stream.taken) {
      CHECK(stream.log.number_at(epoch) == number);
      CHECK(stream.log.first_reaching(number) == epoch);
    }
    for (Marker number = 1; number < stream.next + 3; ++number) {
      const auto reached = std::ranges::find_if(
          stream.taken, [&](const auto& each) { return each.second >= number; });
      const Marker first = stream.log.first_reaching(number);
      CHECK((reached == stream.taken.end() ? first > stream.epoch : first == reached->first));
    }
    const Marker complete = stream.epoch / 2;
    stream.log.forget_before(complete);
    for (Marker epoch = complete; epoch > 0 && epoch <= stream.epoch; ++epoch) {
      CHECK(stream.log.number_at(epoch) == stream.taken[epoch]);
    }
  }
}

TEST_CASE("epochs after a stream left cover the number that the last published epoch took") {
  Counted stream;
  for (int i = 0; i < 3; ++i) stream.begin_epoch();
  stream.log.note_left(3, 2);
  CHECK(stream.log.number_at(3) == 3);
  CHECK(stream.log.number_at(4) == 2);
  CHECK(stream.log.number_at(1'000) == 2);
  CHECK(stream.log.first_reaching(3) == 3);
  CHECK(stream.log.first_reaching(4) == 0);
  stream.log.forget_left();  // another legacy stream was opened
  CHECK(stream.log.number_at(1'000) == 0);
}

TEST_CASE("an epoch log grows by records and not by epochs, and is searched in a few steps") {
  Counted stream;
  for (int i = 0; i < 100'000; ++i) {
    stream.begin_epoch();
    stream.record();
    stream.record();
  }
  const std::uint64_t before = steps_of_this_thread;
  CHECK(stream.log.number_at(50'000) == stream.taken[50'000]);
  CHECK(stream.log.first_reaching(stream.taken[50'000]) == 50'000);
  CHECK(steps_of_this_thread - before < 400);
}

}  // namespace
}  // namespace millrace::ordering
