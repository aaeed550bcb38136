#include "millrace/pipeline/data/whole_file.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>

#include "test/support/catch.hpp"
#include "test/support/scratch_folder.hpp"
#include "test/support/seed.hpp"
#include "test/support/small_disk.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;
using Draft = WholeFile::Draft;
namespace fs = std::filesystem;

namespace {

void write_text(const fs::path& file, const std::string& text, Draft draft) {
  WholeFile out{file, draft};
  out.write(std::as_bytes(std::span{text}));
  out.finish();
}

std::string text_of(const fs::path& file) {
  std::ifstream stream{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

/// Forks a process that writes `pieces` pieces of 4 KiB and finishes the file, unless a test kills
/// it first.
pid_t start_writer(const fs::path& file, char letter, int pieces, Draft draft) {
  const pid_t process = ::fork();
  if (process != 0) return process;
  try {
    WholeFile out{file, draft};
    const std::string piece(4096, letter);
    for (int i = 0; i < pieces; ++i) out.write(std::as_bytes(std::span{piece}));
    out.finish();
  } catch (const std::exception&) {
    ::_exit(1);
  }
  ::_exit(0);
}

bool ended_well(pid_t process) {
  int status = 0;
  ::waitpid(process, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("whole file: the old content stays until the new content is complete") {
  const ScratchFolder folder;
  const Draft draft = GENERATE(Draft::unnamed, Draft::hidden);
  const fs::path file = folder.write("file", "old");
  {
    WholeFile out{file, draft};
    out.write(std::as_bytes(std::span{"half", 4}));
    CHECK(text_of(file) == "old");
  }
  CHECK(text_of(file) == "old");
  CHECK(folder.names() == std::vector<std::string>{"file"});
  write_text(file, "new", draft);
  CHECK(text_of(file) == "new");
  CHECK(folder.names() == std::vector<std::string>{"file"});
}

TEST_CASE("whole file: a writer killed at any instant leaves the old or the new content") {
  const ScratchFolder folder;
  const Draft draft = GENERATE(Draft::unnamed, Draft::hidden);
  const fs::path file = folder.write("file", "old");
  std::mt19937 random{static_cast<unsigned>(seed())};
  for (int i = 0; i < 30; ++i) {
    const std::string before = text_of(file);
    const pid_t writer = start_writer(file, static_cast<char>('a' + i % 26), 400, draft);
    std::this_thread::sleep_for(std::chrono::microseconds{random() % 4000});
    ::kill(writer, SIGKILL);
    static_cast<void>(ended_well(writer));
    const std::string after = text_of(file);
    const bool whole = after == std::string(400 * 4096, static_cast<char>('a' + i % 26));
    CHECK((after == before || whole));
  }
  write_text(file, "last", draft);
  CHECK(text_of(file) == "last");
  CHECK(folder.names() == std::vector<std::string>{"file"});
}

TEST_CASE("whole file: a killed writer with an unnamed draft leaves no file") {
  const ScratchFolder folder;
  const fs::path file = folder / "file";
  const pid_t writer = start_writer(file, 'x', 1 << 30, Draft::unnamed);
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  ::kill(writer, SIGKILL);
  static_cast<void>(ended_well(writer));
  CHECK(folder.names().empty());
}

TEST_CASE("whole file: processes that write one file at once do not mix their bytes") {
  const ScratchFolder folder;
  const Draft draft = GENERATE(Draft::unnamed, Draft::hidden);
  const fs::path file = folder / "file";
  for (int round = 0; round < 10; ++round) {
    std::vector<pid_t> writers;
    for (const char letter : {'a', 'b', 'c', 'd'}) {
      writers.push_back(start_writer(file, letter, 20, draft));
    }
    for (const pid_t writer : writers) CHECK(ended_well(writer));
    const std::string text = text_of(file);
    REQUIRE(text.size() == 20 * 4096);
    CHECK(text == std::string(text.size(), text.front()));
    CHECK(folder.names() == std::vector<std::string>{"file"});
  }
}

TEST_CASE("whole file: a full disk is an error, and the old content stays") {
  const ScratchFolder folder;
  const SmallDisk disk{folder / "disk", 64};
  if (!disk.is_there()) SKIP("no file system can be mounted here");
  const Draft draft = GENERATE(Draft::unnamed, Draft::hidden);
  const fs::path file = folder / "disk" / "file";
  write_text(file, "old", draft);
  CHECK_THROWS_WITH(write_text(file, std::string(1 << 20, 'x'), draft),
                    ContainsSubstring("No space"));
  CHECK(text_of(file) == "old");
  CHECK(std::distance(fs::directory_iterator{folder / "disk"}, {}) == 1);
}

TEST_CASE("whole file: a link is followed, also to a file that does not exist yet") {
  const ScratchFolder folder;
  const Draft draft = GENERATE(Draft::unnamed, Draft::hidden);
  fs::create_directory(folder / "there");
  fs::create_symlink("there/file", folder / "link");
  CHECK(without_links(folder / "link") == fs::canonical(folder / "there") / "file");
  write_text(folder / "link", "first", draft);
  CHECK(text_of(folder / "there" / "file") == "first");
  write_text(folder / "link", "second", draft);
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(text_of(folder / "there" / "file") == "second");
}

TEST_CASE("whole file: the new file keeps the permissions of the old file") {
  const ScratchFolder folder;
  const Draft draft = GENERATE(Draft::unnamed, Draft::hidden);
  const fs::path file = folder.write("file", "old");
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  write_text(file, "new", draft);
  CHECK(fs::status(file).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("whole file: devices and pipes are written to and never replaced") {
  const ScratchFolder folder;
  CHECK_NOTHROW(write_text("/dev/null", "text", Draft::unnamed));
  CHECK(fs::is_character_file("/dev/null"));
  CHECK_THROWS_WITH(write_text("/dev/full", "text", Draft::unnamed), ContainsSubstring("No space"));
  const fs::path pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_NOTHROW(check_whole_file(pipe));  // does not wait for a reader
  std::string read;
  std::thread reader{[&] { read = text_of(pipe); }};
  write_text(pipe, "text", Draft::unnamed);
  reader.join();
  CHECK(read == "text");
  CHECK(fs::is_fifo(pipe));
}

TEST_CASE("whole file: a path where no file can be created is refused, and nothing is created") {
  const ScratchFolder folder;
  CHECK_THROWS_WITH(check_whole_file(folder.path()), "it is a folder");
  CHECK_THROWS_WITH(check_whole_file(""), "it has no name");
  CHECK_THROWS_WITH(check_whole_file(folder / "none" / "file"), ContainsSubstring("No such file"));
  CHECK_NOTHROW(check_whole_file(folder / "file"));
  CHECK_NOTHROW(check_whole_file(folder / std::string(250, 'n')));
  write_text(folder / std::string(250, 'n'), "long", Draft::hidden);
  CHECK(folder.names() == std::vector<std::string>{std::string(250, 'n')});
}
