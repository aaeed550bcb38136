#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "millrace/streamer/sink.hpp"

namespace millrace::sink {

/**
 * @brief A reply, or an element of one. Untrusted: every function except `is_nil` and `is_integer`
 * throws SinkError (wrong) if the value has another type than the function's. Points into the
 * reply.
 */
class ReplyView {
 public:
  /** @param name  name of the sink, which begins each message */
  ReplyView(const redisReply* reply, std::string_view name) noexcept : reply_(reply), name_(name) {}

  [[nodiscard]] bool is_nil() const noexcept { return reply_->type == REDIS_REPLY_NIL; }
  [[nodiscard]] bool is_integer() const noexcept { return reply_->type == REDIS_REPLY_INTEGER; }
  [[nodiscard]] std::int64_t integer() const;
  [[nodiscard]] std::string_view text() const;
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span{text()});
  }
  /** @brief Returns the number of elements of an array. */
  [[nodiscard]] std::size_t size() const;
  /** @param size  required size of the array */
  void check_size(std::size_t size) const;
  [[nodiscard]] ReplyView operator[](std::size_t i) const;

  /** @throws SinkError (wrong). @param what  what was found, and what was expected */
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  void check_type(bool is_it, std::string_view wanted) const;

  const redisReply* reply_;
  std::string_view name_;
};

/** @brief A whole reply that is not an error. */
class Reply {
 public:
  struct Free {
    void operator()(redisReply* reply) const noexcept { freeReplyObject(reply); }
  };
  using Owner = std::unique_ptr<redisReply, Free>;

  /** @param name  outlives this */
  Reply(Owner owner, std::string_view name) : owner_(std::move(owner)), view_(owner_.get(), name) {}

  [[nodiscard]] const ReplyView* operator->() const noexcept { return &view_; }
  [[nodiscard]] const ReplyView& operator*() const noexcept { return view_; }

 private:
  Owner owner_;
  ReplyView view_;
};

/** @brief Limit for the elements of an array: their memory is allocated before they arrive. */
inline constexpr std::size_t kMostElements = std::size_t{1} << 20;
/**
 * @brief Makes a reader refuse larger arrays, like a failed allocation.
 * @param refused  set to true then; outlives the reader
 */
void limit_elements(redisReader& reader, bool& refused);

}  // namespace millrace::sink
