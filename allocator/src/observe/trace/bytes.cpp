#include "observe/trace/bytes.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>

#include "device/shared_library.hpp"
#include "millrace/observe/trace/parse_error.hpp"
#include "observe/trace/formats.hpp"
#include "text/read_file.hpp"

namespace millrace::trace {

namespace {

/** zlib, loaded at its first use, because only compressed traces need it. */
struct Zlib {
  SharedLibrary library{"libz.so.1"};
  decltype(&::inflateInit2_) init = library.find<decltype(::inflateInit2_)>("inflateInit2_");
  decltype(&::inflate) inflate = library.find<decltype(::inflate)>("inflate");
  decltype(&::inflateReset) reset = library.find<decltype(::inflateReset)>("inflateReset");
  decltype(&::inflateEnd) end = library.find<decltype(::inflateEnd)>("inflateEnd");
};

const Zlib& zlib(const std::string& source) {
  static const Zlib found;
  if (!found.library.loaded()) {
    throw ParseError{source, "",
                     "the file is compressed, and zlib cannot be loaded (Debian: zlib1g): " +
                         found.library.problem()};
  }
  return found;
}

class Inflater {
 public:
  Inflater(const std::string& bytes, const std::string& source, const TraceLimits& limits)
      : zlib_{zlib(source)}, bytes_{bytes}, source_{source}, limits_{limits} {
    constexpr int gzip_only = 16 + MAX_WBITS;
    if (zlib_.init(&stream_, gzip_only, ZLIB_VERSION, sizeof stream_) != Z_OK) {
      throw std::bad_alloc{};
    }
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { zlib_.end(&stream_); }

  std::string run() {
    while (true) {
      const int status = step();
      if (status == Z_STREAM_END) {
        if (taken_ == bytes_.size()) return std::move(inflated_);
        zlib_.reset(&stream_);  // another member follows
      } else if (status == Z_BUF_ERROR) {
        fail("the gzip data ends in the middle; the file seems cut short");
      } else if (status != Z_OK) {
        fail(fmt::format("damaged gzip data{}{}", stream_.msg != nullptr ? ": " : "",
                         stream_.msg != nullptr ? stream_.msg : ""));
      }
    }
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw ParseError{source_, fmt::format("byte {}", taken_), problem};
  }

  int step() {
    constexpr std::size_t most = std::size_t{1} << 30;  // zlib counts in 32 bits
    const std::size_t offered = std::min(bytes_.size() - taken_, most);
    // zlib does not write to its input.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes_.data() + taken_));
    stream_.avail_in = static_cast<uInt>(offered);
    stream_.next_out = reinterpret_cast<Bytef*>(chunk_.data());
    stream_.avail_out = static_cast<uInt>(chunk_.size());
    const int status = zlib_.inflate(&stream_, Z_NO_FLUSH);
    taken_ += offered - stream_.avail_in;
    const std::size_t made = chunk_.size() - stream_.avail_out;
    if (inflated_.size() + made > limits_.max_inflated_bytes) {
      fail(fmt::format("inflates to more than the {} bytes that are allowed",
                       limits_.max_inflated_bytes));
    }
    constexpr std::uint64_t harmless = std::uint64_t{64} << 20;
    if (inflated_.size() > harmless && inflated_.size() / taken_ > limits_.max_inflation) {
      fail(fmt::format("inflates to more than {} times its size, as no trace does",
                       limits_.max_inflation));
    }
    inflated_.append(chunk_.data(), made);
    return status;
  }

  const Zlib& zlib_;
  const std::string& bytes_;
  const std::string& source_;
  const TraceLimits& limits_;
  z_stream stream_{};
  std::size_t taken_ = 0;
  std::array<char, 1 << 16> chunk_{};
  std::string inflated_;
};

}  // namespace

std::string read_bytes(const std::filesystem::path& file, const TraceLimits& limits) {
  const std::string source = file.string();
  try {
    return text::read_file(file, limits.max_file_bytes,
                           [&](std::string_view beginning) { check_beginning(beginning, source); });
  } catch (const text::FileProblem& problem) {
    throw ParseError{source, "", problem.what()};
  }
}

std::string gunzip(std::string bytes, const std::string& source, const TraceLimits& limits) {
  if (!bytes.starts_with("\x1f\x8b")) return bytes;
  return Inflater{bytes, source, limits}.run();
}

}  // namespace millrace::trace
