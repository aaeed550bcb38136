#include "millrace/pipeline/data/byte_stream.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "millrace/pipeline/data/epoch_source.hpp"

namespace millrace {
namespace {

class FileStream final : public ByteStream {
 public:
  explicit FileStream(std::string name) : name_(std::move(name)) {
    if (std::filesystem::is_directory(name_)) {
      throw DataError{fmt::format("{} is a folder, not a file", name_)};
    }
    errno = 0;
    file_ = gzopen(name_.c_str(), "rb");
    if (file_ == nullptr) {
      throw RetriableError{fmt::format("cannot open {}: {}", name_, std::strerror(errno))};
    }
    gzbuffer(file_, kBuffer);
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(name_, error);
    if (!error) size_ = static_cast<double>(size);
  }
  ~FileStream() override { gzclose(file_); }
  FileStream(const FileStream&) = delete;
  FileStream& operator=(const FileStream&) = delete;

  std::size_t read(std::span<char> room) override {
    // gzread counts in int.
    const auto most = static_cast<unsigned>(std::min<std::size_t>(room.size(), 1U << 30U));
    const int count = gzread(file_, room.data(), most);
    if (count < 0 || static_cast<unsigned>(count) < most) check();
    return static_cast<std::size_t>(count);
  }

  [[nodiscard]] std::optional<double> share_read() const override {
    if (size_ == 0) return std::nullopt;
    return std::min(1.0, static_cast<double>(gzoffset(file_)) / size_);
  }

 private:
  static constexpr unsigned kBuffer = 1U << 17U;

  // zlib reports truncated gzip data only here, after it has returned all data before the cut.
  void check() const {
    int error = Z_OK;
    const char* const text = gzerror(file_, &error);
    if (error == Z_OK || error == Z_STREAM_END) return;
    if (error == Z_ERRNO) {
      throw RetriableError{fmt::format("cannot read {}: {}", name_, std::strerror(errno))};
    }
    if (error == Z_BUF_ERROR) {
      throw DataError{
          fmt::format("{}: the gzip data end in the middle; the file seems cut short", name_)};
    }
    throw DataError{fmt::format("{}: damaged gzip data ({})", name_, text)};
  }

  std::string name_;
  gzFile file_ = nullptr;
  double size_ = 0;  ///< bytes of the file on the disk; 0: unknown
};

class TextStream final : public ByteStream {
 public:
  explicit TextStream(std::shared_ptr<const std::string> text) : text_(std::move(text)) {}

  std::size_t read(std::span<char> room) override {
    const std::size_t count = text_->copy(room.data(), room.size(), at_);
    at_ += count;
    return count;
  }

 private:
  std::shared_ptr<const std::string> text_;
  std::size_t at_ = 0;
};

}  // namespace

ByteSource file_source(const std::filesystem::path& file) {
  return {file.string(), [name = file.string()] { return std::make_unique<FileStream>(name); }};
}

ByteSource text_source(std::string name, std::string text) {
  return {std::move(name), [text = std::make_shared<const std::string>(std::move(text))] {
            return std::make_unique<TextStream>(text);
          }};
}

}  // namespace millrace
