#include "process/recorder.hpp"

#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <system_error>

#include "millrace/observe/trace/read_trace.hpp"
#include "process/settings.hpp"
#include "runtime/real.hpp"

namespace millrace::interpose {
namespace {

/** The words of the process's command line. */
std::string command_line() {
  std::ifstream file{"/proc/self/cmdline", std::ios::binary};
  std::string words, word;
  while (std::getline(file, word, '\0') && words.size() < 1000)
    words += (words.empty() ? "" : " ") + word;
  return words;
}

}  // namespace

class Recorder::MemorySink final : public trace::TraceSink {
 public:
  bool write(std::string_view record) override {
    if (records_ == kMostInMemory) return false;
    ++records_;
    bytes += record;
    return true;
  }
  std::string bytes;

 private:
  std::size_t records_ = 0;
};

Recorder::Recorder(const std::string& name_of_file, bool sites) {
  const std::string file = of_this_process(name_of_file);
  for (const std::string& name : {file, file + '.' + std::to_string(getpid())}) {
    if (file.empty()) break;
    try {
      sink_ = trace::create_trace_file(name);
      file_ = name;
      break;
    } catch (const std::system_error& error) {
      if (error.code() == std::errc::file_exists && name == file) {
        warn_once((file + " is written by another process: this one writes " + file + '.' +
                   std::to_string(getpid()))
                      .c_str());
        continue;
      }
      warn_once(("the trace cannot be written: " + std::string{error.what()}).c_str());
      break;
    }
  }
  if (sink_ == nullptr) {
    auto memory = std::make_unique<MemorySink>();
    memory_ = memory.get();
    sink_ = std::move(memory);
  }
  writer_ = std::make_unique<trace::TraceWriter>(*sink_);
  writer_->program(command_line());
  if (sites) sites_ = std::make_unique<Sites>(*writer_);
}

void Recorder::finish() {
  writer_->finish();
  if (memory_ == nullptr) sink_.reset();
}

trace::AllocationLog Recorder::log() const {
  constexpr std::uint64_t most_bytes = std::uint64_t{1} << 23;  // limit for reading a file
  if (memory_ != nullptr) return trace::parse_trace(memory_->bytes, "the program's calls");
  return trace::read_trace(file_, {.max_file_bytes = most_bytes});
}

}  // namespace millrace::interpose
