// The cost of reading a trace, for honest files and for the worst known files. docs/traces.md has
// the table. Each file is read in a separate process, whose peak of resident memory is reported.
//
//   experiment_trace_limits [MEGABYTES]
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/observe/trace/parse_error.hpp"
#include "millrace/observe/trace/read_trace.hpp"
#include "millrace/text/parse_number.hpp"

namespace {

using namespace std::string_literals;
using Maker = std::function<std::string(std::size_t bytes)>;

struct Case {
  const char* name;
  Maker make;
  bool gzipped = false;
};

std::string repeated(const std::string& begin, const std::string& part, const std::string& end,
                     std::size_t bytes) {
  std::string text = begin;
  text.reserve(bytes + 1000);
  while (text.size() < bytes) text += part;
  return text + end;
}

std::string short_text(std::string_view text) {
  return "X" + std::string{static_cast<char>(text.size())} + "\0\0\0"s + std::string{text};
}

std::string little(std::uint64_t value, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

/// Keys and actions of a trace. Their memo indices in the pickle are their indices here.
const std::vector<std::string> kWords = {
    "action",         "addr",   "size",     "stream",   "time_us", "alloc", "free_requested",
    "free_completed", "frames", "snapshot", "filename", "name",    "line"};

std::string word(std::string_view text) {
  for (std::size_t i = 0; i < kWords.size(); ++i) {
    if (kWords[i] == text) return "h"s + static_cast<char>(i);
  }
  return short_text(text);
}

std::string snapshot_begins() {
  std::string text = "\x80\x02";
  for (std::size_t i = 0; i < kWords.size(); ++i) {
    text += short_text(kWords[i]) + "q" + static_cast<char>(i) + "0";
  }
  return text + "}(" + short_text("segments") + "]" + short_text("device_traces") + "](](";
}

constexpr std::string_view kSnapshotEnds = "eeu.";

/// An event as PyTorch writes it, with a list of frames that all events share.
std::string event(std::string_view action, std::uint64_t address, std::uint64_t bytes,
                  std::uint64_t time, bool honest) {
  std::string text = "}(" + word("action") + word(action) + word("addr") + "\x8a\x06" +
                     little(address, 6) + word("size") + "J" + little(bytes, 4);
  if (honest) {
    text += word("stream") + "K\0"s + word("time_us") + "\x8a\x07" + little(time, 7) +
            short_text("compile_context") + short_text("N/A") + short_text("user_metadata") +
            short_text("") + word("frames") + "](";
    for (int frame = 0; frame < 20; ++frame) text += "j" + little(13, 4);
    text += "e";
  }
  return text + "u";
}

std::string honest_pickle(std::size_t bytes) {
  std::string text = snapshot_begins();
  text.insert(text.find("}("), "}(" + word("filename") + short_text("train.py") + word("name") +
                                   short_text("step") + word("line") + "Kxuq\x0d" + "0");
  for (std::uint64_t i = 0; text.size() < bytes; ++i) {
    const std::uint64_t address = 0x7f0000000000 + (i % 50'000) * 4096;
    for (const char* action : {"alloc", "free_requested", "free_completed"}) {
      text += event(action, address, 4000, 1'783'874'495'854'988 + i, true);
    }
    if (i % 300 == 299) text += "e(";  // writers append 1,000 items at a time
  }
  return text + std::string{kSnapshotEnds};
}

std::string honest_json(std::size_t bytes) {
  std::string text = R"({"segments": [], "device_traces": [[)";
  text += R"({"action": "snapshot", "frames": []})";
  for (std::uint64_t i = 0; text.size() < bytes; ++i) {
    for (const char* action : {"alloc", "free_requested", "free_completed"}) {
      text += fmt::format(R"(, {{"action": "{}", "addr": {}, "size": 4000, "stream": 0, )"
                          R"("time_us": {}, "compile_context": "N/A", "user_metadata": "", )"
                          R"("frames": []}})",
                          action, 0x7f0000000000 + (i % 50'000) * 4096, 1'783'874'495'854'988 + i);
    }
  }
  return text + "]]}";
}

std::string allocs(std::size_t bytes) {
  std::string text = snapshot_begins();
  for (std::uint64_t i = 0; text.size() < bytes; ++i)
    text += event("alloc", i * 512, 512, 0, false);
  return text + std::string{kSnapshotEnds};
}

std::string rows(const std::string& header, std::size_t bytes,
                 const std::function<std::string(std::uint64_t)>& row) {
  std::string text = header;
  for (std::uint64_t i = 0; text.size() < bytes; ++i) text += row(i);
  return text;
}

std::string json_of(const std::string& item, std::size_t bytes) {
  return repeated(R"({"segments": [], "device_traces": [], "x": [)" + item, "," + item, "]}",
                  bytes);
}

std::vector<Case> cases() {
  const auto pickle_of = [](const std::string& part) {
    return [part](std::size_t bytes) { return repeated("\x80\x04](", part, "e.", bytes); };
  };
  return {
      {"snapshot, pickled", honest_pickle},
      {"snapshot, pickled, gzip", honest_pickle, true},
      {"snapshot, JSON", honest_json},
      {"snapshot, JSON, gzip", honest_json, true},
      {"lifetimes",
       [](std::size_t bytes) {
         return rows("id,lower,upper,size\n", bytes, [](std::uint64_t i) {
           return fmt::format("{},{},{},{}\n", i, i, i + 1000, 4096);
         });
       }},
      {"RMM log",
       [](std::size_t bytes) {
         return rows("Thread,Time,Action,Pointer,Size,Stream\n", bytes, [](std::uint64_t i) {
           return fmt::format("2342727,15:47:02.841961,{},{:#x},4096,0x0\n",
                              i % 2 == 0 ? "allocate" : "free", 0x10012400000 + i / 2 * 4096);
         });
       }},
      {"None, over and over", pickle_of("N")},
      {"None, gzip", pickle_of("N"), true},
      {"empty lists", pickle_of("]")},
      {"empty lists in the memo", pickle_of("]\x94")},
      {"floats", pickle_of("G12345678")},
      {"integers of 64 bits", pickle_of("\x8a\x08"s + "12345678")},
      {"one value memoized again and again",
       [](std::size_t bytes) { return repeated("\x80\x04N", "\x94", ".", bytes); }},
      {"events that say nothing",
       [](std::size_t bytes) {
         return repeated(snapshot_begins(), "}(" + word("action") + word("snapshot") + "u",
                         std::string{kSnapshotEnds}, bytes);
       }},
      {"allocations of the shortest kind", allocs},
      {"JSON of empty lists", [](std::size_t bytes) { return json_of("[]", bytes); }},
      {"JSON of digits", [](std::size_t bytes) { return json_of("1", bytes); }},
      {"JSON of fractions", [](std::size_t bytes) { return json_of("1.5", bytes); }},
      {"lifetimes of the shortest kind",
       [](std::size_t bytes) {
         return rows("id,lower,upper,size\n", bytes,
                     [](std::uint64_t i) { return fmt::format("{:x},0,1,1\n", i); });
       }},
      {"RMM rows of the shortest kind",
       [](std::size_t bytes) {
         return rows("Thread,Time,Action,Pointer,Size,Stream\n", bytes, [](std::uint64_t i) {
           return fmt::format(",0,allocate,{:x},1,{:x}\n", i + 1, i + 16);
         });
       }},
  };
}

void write(const std::filesystem::path& file, const std::string& bytes, bool gzipped) {
  if (!gzipped) {
    std::ofstream{file, std::ios::binary} << bytes;
    return;
  }
  const gzFile out = gzopen(file.c_str(), "wb9");
  if (out == nullptr || gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size())) <= 0 ||
      gzclose(out) != Z_OK) {
    throw std::runtime_error{"cannot write " + file.string()};
  }
}

/// Runs `work` in a child process. @return the child's peak of resident memory in bytes
template <typename Work>
std::uint64_t in_child(const Work& work) {
  std::cout.flush();
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error{"cannot fork"};
  if (child == 0) {
    work();
    std::cout.flush();
    ::_exit(0);
  }
  int status = 0;
  rusage usage{};
  if (::wait4(child, &status, 0, &usage) != child || status != 0) {
    throw std::runtime_error{"the process that reads died"};
  }
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void read(const std::filesystem::path& file) {
  const double begin = cpu_seconds();
  std::string outcome = "read";
  try {
    const auto log = millrace::trace::read_trace(file);
    if (!log.events.empty()) outcome = fmt::format("{} events", log.events.size());
  } catch (const millrace::trace::ParseError& problem) {
    const std::string_view what = problem.what();
    outcome = what.find("needs more memory") != std::string_view::npos ? "too much" : "refused";
  }
  fmt::print("| {:>8.2f} s | {:<16} ", cpu_seconds() - begin, outcome);
  std::fflush(stdout);
}

void measure(const Case& which, std::size_t bytes) {
  const auto file =
      std::filesystem::temp_directory_path() / fmt::format("millrace-trace-limits-{}", ::getpid());
  in_child([&] { write(file, which.make(bytes), which.gzipped); });
  const std::uint64_t before = in_child([] {});
  const auto on_disk = static_cast<double>(std::filesystem::file_size(file));
  fmt::print("| {:<36} | {:>8.2f} ", which.name, on_disk / (1 << 20));
  const auto peak = static_cast<double>(in_child([&] { read(file); }) - before);
  fmt::print("| {:>8.0f} | {:>7.1f} |\n", peak / (1 << 20), peak / static_cast<double>(bytes));
  std::filesystem::remove(file);
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t megabytes = 100;
  if (argc > 1) {
    megabytes = millrace::text::parse_number<std::size_t>(argv[1]).value_or(0);
    if (megabytes == 0) {
      std::cerr << "usage: experiment_trace_limits [MEGABYTES]\n";
      return 2;
    }
  }
  fmt::print("{} MB of each, before gzip\n", megabytes);
  fmt::print("| file | MiB on disk | CPU time | outcome | peak MiB | bytes of memory a byte |\n");
  fmt::print("|---|---|---|---|---|---|\n");
  for (const Case& which : cases()) measure(which, megabytes * 1'000'000);
}
