#include "sink/kafka/topic/commits.hpp"

#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

void put(sink::TopicCommits& commits, Version version, std::int32_t part, std::uint64_t rows,
         std::int32_t parts = 2) {
  const StepCommit commit{.version = version, .step = version.step, .rank = 1, .ranks = 3};
  commits.add(sink::of_part(commit, part, parts, rows), "");
}

}  // namespace

TEST_CASE("a commit counts once it is in all partitions, with the rows of all of them", "[kafka]") {
  sink::TopicCommits commits;
  put(commits, {1, 4}, 0, 7);
  CHECK(commits.state().commits.empty());
  put(commits, {1, 4}, 1, 5);
  const StepCommit commit = commits.state().commits.at(1);
  CHECK(commit.version == Version{1, 4});
  CHECK(commit.rows == 12);
  CHECK(commit.part == 0);
  CHECK(commit.parts == 1);
}

TEST_CASE("a commit that is not in all partitions does not hide the previous commit", "[kafka]") {
  sink::TopicCommits commits;
  put(commits, {1, 4}, 0, 7);
  put(commits, {1, 4}, 1, 5);
  put(commits, {1, 5}, 1, 2);
  CHECK(commits.state().commits.at(1).version == Version{1, 4});
  put(commits, {1, 5}, 0, 2);
  CHECK(commits.state().commits.at(1).version == Version{1, 5});
}

TEST_CASE("after a topic has grown, a commit counts once it is in all partitions", "[kafka]") {
  sink::TopicCommits commits;
  put(commits, {1, 4}, 0, 7);
  put(commits, {1, 4}, 1, 7);
  put(commits, {1, 5}, 0, 1, 3);
  put(commits, {1, 5}, 1, 1, 3);
  CHECK(commits.state().commits.empty());
  put(commits, {1, 5}, 2, 1, 3);
  CHECK(commits.state().commits.at(1).rows == 3);
}

}  // namespace millrace::test
