#include "sink/kafka/topic/marks.hpp"

#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

void put(sink::TopicMarks& marks, Version version, std::int32_t part, std::uint64_t rows,
         std::int32_t parts = 2) {
  const StepMark mark{.version = version, .step = version.step, .rank = 1, .ranks = 3};
  marks.add(sink::of_part(mark, part, parts, rows), "");
}

}  // namespace

TEST_CASE("a mark counts when it is in all partitions, with the rows of all", "[kafka]") {
  sink::TopicMarks marks;
  put(marks, {1, 4}, 0, 7);
  CHECK(marks.state().marks.empty());
  put(marks, {1, 4}, 1, 5);
  const StepMark mark = marks.state().marks.at(1);
  CHECK(mark.version == Version{1, 4});
  CHECK(mark.rows == 12);
  CHECK(mark.part == 0);
  CHECK(mark.parts == 1);
}

TEST_CASE("a mark that failed in some partitions does not hide the one before", "[kafka]") {
  sink::TopicMarks marks;
  put(marks, {1, 4}, 0, 7);
  put(marks, {1, 4}, 1, 5);
  put(marks, {1, 5}, 1, 2);
  CHECK(marks.state().marks.at(1).version == Version{1, 4});
  put(marks, {1, 5}, 0, 2);
  CHECK(marks.state().marks.at(1).version == Version{1, 5});
}

TEST_CASE("marks of a topic that has grown are wanted of all its partitions", "[kafka]") {
  sink::TopicMarks marks;
  put(marks, {1, 4}, 0, 7);
  put(marks, {1, 4}, 1, 7);
  put(marks, {1, 5}, 0, 1, 3);
  put(marks, {1, 5}, 1, 1, 3);
  CHECK(marks.state().marks.empty());
  put(marks, {1, 5}, 2, 1, 3);
  CHECK(marks.state().marks.at(1).rows == 3);
}

}  // namespace millrace::test
