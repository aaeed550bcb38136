#include "sink/redis/reply.hpp"

#include <fmt/format.h>

namespace millrace::sink {
namespace {

std::string_view kind_of(const redisReply& reply) {
  switch (reply.type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
      return "a text";
    case REDIS_REPLY_ARRAY:
      return "an array";
    case REDIS_REPLY_INTEGER:
      return "a number";
    case REDIS_REPLY_NIL:
      return "nothing";
    case REDIS_REPLY_ERROR:
      return "an error";
    default:
      return "something";
  }
}

const redisReplyObjectFunctions* unlimited = nullptr;  ///< of the client's library: always the same

template <typename Count>
void* limited_array(const redisReadTask* task, Count elements) {
  if (static_cast<std::size_t>(elements) > kMostElements) {
    *static_cast<bool*>(task->privdata) = true;
    return nullptr;
  }
  return unlimited->createArray(task, elements);
}

}  // namespace

void ReplyView::refuse(std::string_view what) const {
  throw SinkError{SinkError::Kind::wrong,
                  fmt::format("{}: unexpected answer of the server: {}", name_, what)};
}

void ReplyView::check_type(bool is_it, std::string_view wanted) const {
  if (!is_it) refuse(fmt::format("{} where {} belongs", kind_of(*reply_), wanted));
}

std::int64_t ReplyView::integer() const {
  check_type(is_integer(), "a number");
  return reply_->integer;
}

std::string_view ReplyView::text() const {
  const bool is_text = reply_->type == REDIS_REPLY_STRING || reply_->type == REDIS_REPLY_STATUS;
  check_type(is_text, "a text");
  return {reply_->str, static_cast<std::size_t>(reply_->len)};
}

std::size_t ReplyView::size() const {
  check_type(reply_->type == REDIS_REPLY_ARRAY, "an array");
  return reply_->elements;
}

void ReplyView::check_size(std::size_t there_are) const {
  if (size() != there_are) refuse(fmt::format("{} elements where {} belong", size(), there_are));
}

ReplyView ReplyView::operator[](std::size_t i) const {
  if (i >= size()) refuse(fmt::format("{} elements where there are more", size()));
  return {reply_->element[i], name_};
}

void limit_elements(redisReader& reader, bool& refused) {
  static redisReplyObjectFunctions limited = [&] {
    unlimited = reader.fn;
    redisReplyObjectFunctions functions = *reader.fn;
    functions.createArray = limited_array;
    return functions;
  }();
  reader.fn = &limited;
  reader.privdata = &refused;
}

}  // namespace millrace::sink
