// A server with replies that no Redis server gives.
#include "sink/redis/redis_sink.hpp"
#include "test/streamer/sink/batch_of_rows.hpp"
#include "test/streamer/sink/redis/fake_redis.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

using sink::RedisSink;

template <typename... What>
std::string record_reply(const What&... what) {
  std::vector<std::byte> record;
  append_record(record, what...);
  return text_reply({reinterpret_cast<const char*>(record.data()), record.size()});
}

std::string commit_reply(std::uint32_t rank) {
  return record_reply(StepCommit{.version = {1, 1}, .rank = rank, .ranks = rank + 1});
}

std::string row_reply(std::int64_t row) {
  return record_reply(batch_of_rows({1, 1}, {}, row, row + 1, 1).row(0));
}

std::string cut_short(std::string reply) {
  const std::size_t begin = reply.find('\n') + 1;
  return text_reply(reply.substr(begin, reply.size() - begin - 2 - 8));
}
std::string with_something_behind(std::string reply) {
  const std::size_t begin = reply.find('\n') + 1;
  return text_reply(reply.substr(begin, reply.size() - begin - 2) + "12345678");
}

/// The replies of a healthy server, except for those in `but`.
FakeRedis::Answers well(const FakeRedis::Answers& but) {
  FakeRedis::Answers answers = but;
  answers.try_emplace(
      "HGETALL", array_reply({text_reply("schema"), record_reply(four_wide_schema(), Version{})}));
  answers.try_emplace(
      "SCAN", array_reply({text_reply("0"), array_reply({text_reply("test:table.user:3")})}));
  answers.try_emplace("MGET", array_reply({row_reply(3)}));
  answers.try_emplace("GET", "$-1\r\n");
  return answers;
}

void do_all(const FakeRedis& server) {
  RedisSink sink{server.spec()};
  sink.begin(four_wide_schema());
  (void)sink.state();
  (void)sink.snapshot_request();
  (void)values_in(sink);
  sink.write(batch_of_rows({1, 2}, {}, 0, 3, 1));
}

/// Replies that are neither an array nor a text nor a number.
const std::string kNothing = "$-1\r\n", kNoArray = "*-1\r\n";

std::vector<std::string> other_than(const std::string& kind) {
  std::vector<std::string> replies{kNothing, kNoArray, "*3\r\n$1\r\na\r\n:1\r\n*0\r\n"};
  if (kind != "number") replies.insert(replies.end(), {":1\r\n", ":-9223372036854775808\r\n"});
  if (kind != "text") replies.insert(replies.end(), {"+OK\r\n", "$0\r\n\r\n", "$3\r\nabc\r\n"});
  if (kind != "array") replies.insert(replies.end(), {"*0\r\n", "*1\r\n$1\r\na\r\n"});
  return replies;
}

void check_refused(const FakeRedis::Answers& answers) {
  const FakeRedis server{well(answers)};
  CAPTURE(answers.begin()->first, answers.begin()->second);
  const auto refusal = refusal_of([&] { do_all(server); });
  REQUIRE(refusal);
  CHECK(refusal->kind == SinkError::Kind::wrong);
  CHECK(refusal->what.starts_with(server.spec()));
}

}  // namespace

TEST_CASE("a fake server with valid replies is accepted", "[redis]") {
  const FakeRedis server{well({})};
  CHECK(!refusal_of([&] { do_all(server); }));
}

TEST_CASE("a reply of the wrong type to any command is refused as wrong", "[redis]") {
  for (const auto& [command, kind] : std::map<std::string, std::string>{{"INFO", "text"},
                                                                        {"SCRIPT", "text"},
                                                                        {"HSETNX", "number"},
                                                                        {"HGETALL", "array"},
                                                                        {"SCAN", "array"},
                                                                        {"MGET", "array"},
                                                                        {"EVALSHA", "number"}}) {
    for (const std::string& reply : other_than(kind)) check_refused({{command, reply}});
  }
  for (const std::string reply : {":1\r\n", "*0\r\n", "$3\r\nabc\r\n", "$0\r\n\r\n"}) {
    check_refused({{"GET", reply}});
  }
}

TEST_CASE("an invalid HGETALL reply or one with wrong records is refused as wrong", "[redis]") {
  const std::string schema = record_reply(four_wide_schema(), Version{});
  for (const std::vector<std::string>& elements : std::vector<std::vector<std::string>>{
           {text_reply("schema")},
           {text_reply("schema"), schema, text_reply("mark:0")},
           {":7\r\n", schema},
           {text_reply("schema"), ":7\r\n"},
           {text_reply("schema"), kNothing},
           {text_reply("schema"), array_reply({schema})},
           {text_reply("schema"), text_reply("")},
           {text_reply("schema"), commit_reply(0)},
           {text_reply("schema"), cut_short(schema)},
           {text_reply("schema"), with_something_behind(schema)},
           {text_reply("position"), ":7\r\n"},
           {text_reply("mark:0"), schema},
           {text_reply("mark:0"), row_reply(3)},
           {text_reply("mark:0"), commit_reply(1)},
           {text_reply("mark:"), commit_reply(0)},
           {text_reply("mark:0"), cut_short(commit_reply(0))},
           {text_reply("mark:0"), with_something_behind(commit_reply(0))}}) {
    check_refused({{"HGETALL", array_reply(elements)}});
  }
}

TEST_CASE("an invalid SCAN reply is refused as wrong", "[redis]") {
  const std::string key = text_reply("test:table.user:3");
  for (const std::vector<std::string>& elements :
       std::vector<std::vector<std::string>>{{text_reply("0")},
                                             {":0\r\n", array_reply({key})},
                                             {kNothing, array_reply({key})},
                                             {text_reply("0"), key},
                                             {text_reply("0"), kNoArray},
                                             {text_reply("0"), array_reply({":3\r\n"})},
                                             {text_reply("0"), array_reply({kNothing})},
                                             {text_reply("0"), array_reply({key}), key}}) {
    check_refused({{"SCAN", array_reply(elements)}});
  }
}

TEST_CASE("an MGET reply of the wrong length or type is refused as wrong", "[redis]") {
  for (const std::vector<std::string>& elements : std::vector<std::vector<std::string>>{
           {}, {row_reply(3), row_reply(3)}, {":3\r\n"}, {array_reply({row_reply(3)})}}) {
    check_refused({{"MGET", array_reply(elements)}});
  }
  check_refused({{"MGET", array_reply({kNothing})}, {"TYPE", ":3\r\n"}});
}

TEST_CASE("a value that is not a record of its row is an error for readers", "[redis]") {
  for (const std::string& value :
       {row_reply(4), commit_reply(0), cut_short(row_reply(3)), with_something_behind(row_reply(3)),
        text_reply(""), record_reply(RowRecord{.row = 3})}) {
    CAPTURE(value);
    const FakeRedis server{well({{"MGET", array_reply({value})}})};
    RedisSink sink{server.spec()};
    CHECK_THROWS_AS(values_in(sink), RecordError);
  }
}

TEST_CASE("an invalid reply of a script is refused as wrong", "[redis]") {
  for (const std::string& reply :
       {std::string{":2\r\n"}, std::string{":-1\r\n"}, text_reply(std::string(15, 'v')),
        text_reply(std::string(17, 'v'))}) {
    check_refused({{"EVALSHA", reply}});
  }
  const FakeRedis server{well({{"EVALSHA", text_reply(std::string(16, '\0'))}})};
  const auto refusal = refusal_of([&] { do_all(server); });
  REQUIRE(refusal);
  CHECK(refusal->kind == SinkError::Kind::lost);
}

TEST_CASE("a reply outside the Redis protocol or without an end is refused as wrong", "[redis]") {
  for (const std::string reply :
       {"HTTP/1.1 400 Bad Request\r\n\r\n", "*1048577\r\n", "*99999999999999999999\r\n",
        "*2147483647\r\n", "$-7\r\n", "*-7\r\n", ":abc\r\n"}) {
    check_refused({{"HGETALL", reply}});
  }
}

TEST_CASE("a text longer than any record is refused without reading it to its end", "[redis]") {
  const std::string endless = "$9000000000\r\n" + std::string(kLargestRecord + (2U << 20U), 'x');
  check_refused({{"HGETALL", endless}});
}

}  // namespace millrace::test
