#include <cmath>
#include <string>

#include "millrace/observe/trace/pickle.hpp"
#include "test/observe/trace_support.hpp"
#include "test/support/catch.hpp"
#include "test/support/pickle_writer.hpp"

namespace {

using Catch::Matchers::ContainsSubstring;
using millrace::test::refusal;
using millrace::test::to_json;
using millrace::test::to_pickle;
using nlohmann::json;
using namespace millrace::trace;
using namespace std::string_literals;

// The output of Python's pickle.dumps for `python_data`, in each protocol.
constexpr const char* kProtocol2 =
    "80027d7100285804000000696e747371015d7102284b004bff4d00014dffff4a000001004affffffff4a000000"
    "808a0500000080008a08ffffffffffffff7f8a0800000000000000806558040000007265616c710347bff80000"
    "0000000058060000007475706c657371045d710528294b018571064b014b028671074b014b024b03877108284b"
    "014b024b034b04747109655805000000666c616773710a5d710b284e888965580400000074657874710c580200"
    "0000c3a9710d5806000000736861726564710e5d710f285d71105801000000787111616810655805000000656d"
    "70747971125d7113287d71145d711565752e";
constexpr const char* kProtocol3 =
    "80037d7100285804000000696e747371015d7102284b004bff4d00014dffff4a000001004affffffff4a000000"
    "808a0500000080008a08ffffffffffffff7f8a0800000000000000806558040000007265616c710347bff80000"
    "0000000058060000007475706c657371045d710528294b018571064b014b028671074b014b024b03877108284b"
    "014b024b034b04747109655805000000666c616773710a5d710b284e888965580400000074657874710c580200"
    "0000c3a9710d5806000000736861726564710e5d710f285d71105801000000787111616810655805000000656d"
    "70747971125d7113287d71145d711565580500000062797465737116430200ff7117752e";
constexpr const char* kProtocol4 =
    "800495cd000000000000007d94288c04696e7473945d94284b004bff4d00014dffff4a000001004affffffff4a"
    "000000808a0500000080008a08ffffffffffffff7f8a080000000000000080658c047265616c9447bff8000000"
    "0000008c067475706c6573945d9428294b0185944b014b0286944b014b024b038794284b014b024b034b047494"
    "658c05666c616773945d94284e8889658c0474657874948c02c3a9948c06736861726564945d94285d948c0178"
    "94616810658c05656d707479945d94287d945d94658c05627974657394430200ff94752e";
constexpr const char* kProtocol5 =
    "800595cd000000000000007d94288c04696e7473945d94284b004bff4d00014dffff4a000001004affffffff4a"
    "000000808a0500000080008a08ffffffffffffff7f8a080000000000000080658c047265616c9447bff8000000"
    "0000008c067475706c6573945d9428294b0185944b014b0286944b014b024b038794284b014b024b034b047494"
    "658c05666c616773945d94284e8889658c0474657874948c02c3a9948c06736861726564945d94285d948c0178"
    "94616810658c05656d707479945d94287d945d94658c05627974657394430200ff94752e";

json python_data(bool with_bytes) {
  json data = {
      {"ints",
       {0, 255, 256, 65535, 65536, -1, INT32_MIN, std::int64_t{1} << 31, INT64_MAX, INT64_MIN}},
      {"real", -1.5},
      {"tuples", {json::array(), {1}, {1, 2}, {1, 2, 3}, {1, 2, 3, 4}}},
      {"flags", {nullptr, true, false}},
      {"text", "\xc3\xa9"},
      {"shared", {json::array({"x"}), json::array({"x"})}},
      {"empty", {json::object(), json::array()}}};
  if (with_bytes) data["bytes"] = "\x00\xff"s;
  return data;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

json read(const std::string& bytes, const TraceLimits& limits = {}) {
  const ValueTree tree = read_pickle(bytes, "file", limits);
  return to_json(tree.root());
}

std::string refused(const std::string& bytes, const TraceLimits& limits = {}) {
  return refusal([&] { return read_pickle(bytes, "file", limits); });
}

std::string framed(const std::string& body) { return "\x80\x04" + body + "."; }

}  // namespace

TEST_CASE("a pickle of protocol 2, 3, 4 or 5 gives the data that Python wrote") {
  CHECK(read(from_hex(kProtocol2)) == python_data(false));
  CHECK(read(from_hex(kProtocol3)) == python_data(true));
  CHECK(read(from_hex(kProtocol4)) == python_data(true));
  CHECK(read(from_hex(kProtocol5)) == python_data(true));
}

TEST_CASE("a pickle cut short at any byte is refused") {
  for (const char* const hex : {kProtocol2, kProtocol3, kProtocol4, kProtocol5}) {
    const std::string whole = from_hex(hex);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      INFO("cut to " << length << " of " << whole.size() << " bytes");
      CHECK(refused(whole.substr(0, length)).starts_with("file: byte "));
    }
  }
}

TEST_CASE("a pickle with any one byte changed is either read or refused") {
  for (const char* const hex : {kProtocol2, kProtocol5}) {
    const std::string whole = from_hex(hex);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      for (int value = 0; value < 256; ++value) {
        std::string changed = whole;
        changed[at] = static_cast<char>(value);
        const std::string problem = refused(changed);
        CHECK((problem.empty() || problem.starts_with("file: ")));
      }
    }
  }
}

TEST_CASE("opcodes that import, call or build are refused by name and place") {
  CHECK(refused("\x80\x02"
                "cos\nsystem\n(X\x02\x00\x00\x00ls"
                "tR."s) ==
        "file: byte 2: opcode GLOBAL (0x63) would run code, which is refused; only dicts, lists, "
        "tuples, "
        "strings, numbers, booleans and None are read");
  CHECK_THAT(refused(framed("\x8c\x02os\x8c\x06system\x93")),
             ContainsSubstring("byte 14: opcode STACK_GLOBAL"));
  CHECK_THAT(refused(framed("N)R")), ContainsSubstring("byte 4: opcode REDUCE"));
  CHECK_THAT(refused(framed("NNb")), ContainsSubstring("byte 4: opcode BUILD"));
  CHECK_THAT(refused(framed("N)\x81")), ContainsSubstring("opcode NEWOBJ"));
  CHECK_THAT(refused(framed("N)}\x92")), ContainsSubstring("opcode NEWOBJ_EX"));
  CHECK_THAT(refused(framed("(ios\nsystem\n")), ContainsSubstring("opcode INST"));
  CHECK_THAT(refused(framed("(No")), ContainsSubstring("opcode OBJ"));
  CHECK_THAT(refused(framed("\x82\x01")), ContainsSubstring("opcode EXT1"));
}

TEST_CASE("sets and bytearrays are read as placeholders") {
  CHECK(read(framed("]\x8f(NK\x01\x90"
                    "aK\x02"
                    "a")) == json::array({"a set or a bytearray", 2}));
  CHECK(read(framed("(N\x91\x85")) == json::array({"a set or a bytearray"}));
  CHECK(read(framed("\x96\x02\x00\x00\x00\x00\x00\x00\x00"
                    "ab\x85"s)) == json::array({"a set or a bytearray"}));
  CHECK_THAT(refused(framed("](N\x90")), ContainsSubstring("wants a set, but finds a list"));
  CHECK_THAT(refused(framed("\x96\xff\xff\xff\xff\xff\xff\xff\xff")),
             ContainsSubstring("the file ends inside opcode BYTEARRAY8"));
}

TEST_CASE("buffers, persistent ids and opcodes of old protocols are refused by name") {
  CHECK_THAT(refused(framed("\x97")), ContainsSubstring("opcode NEXT_BUFFER"));
  CHECK_THAT(refused(framed("NQ")), ContainsSubstring("refers to something outside the file"));
  CHECK_THAT(refused(framed("I12\n")), ContainsSubstring("protocols 0 and 1"));
  CHECK_THAT(refused(framed("\xf0")), ContainsSubstring("byte 0xf0 is not an opcode"));
}

TEST_CASE("other protocols are refused with the ones that are read") {
  CHECK_THAT(refused("(dp0\n."), ContainsSubstring("begins with opcode PROTO"));
  CHECK_THAT(refused("\x80\x01N."),
             ContainsSubstring("pickle protocol 1 is not read; save it with protocol 2"));
  CHECK_THAT(refused("\x80\x06N."), ContainsSubstring("pickle protocol 6 is not read"));
}

TEST_CASE("an opcode that finds too little on the stack is refused") {
  for (const char* const body : {"", "0", "1", "2", "a", "Na", "e", "u", "s", "Ns", "NNs", "t",
                                 "\x85", "N\x86", "q\x01", "\x94", "(N]e", "](NNe0", "N("}) {
    INFO(body);
    CHECK_FALSE(refused(framed(body)).empty());
  }
  CHECK_THAT(refused(framed("N(Ne")),
             ContainsSubstring("APPENDS (0x65) wants a list, but finds None"));
  CHECK_THAT(refused(framed("}(Nu")), ContainsSubstring("has a key without a value"));
  CHECK_THAT(refused(framed("NN")),
             ContainsSubstring("STOP comes while a collection is still being built"));
}

TEST_CASE("lengths beyond the end of the file are refused before anything is allocated") {
  for (const char* const body :
       {"X\xff\xff\xff\xff", "B\xff\xff\xff\x7f", "T\xff\xff\xff\xff", "\x8b\xff\xff\xff\xff",
        "\x8d\xff\xff\xff\xff\xff\xff\xff\xff", "\x8e\xff\xff\xff\xff\xff\xff\xff\x7f",
        "\x95\xff\xff\xff\xff\xff\xff\xff\xff"}) {
    CHECK_THAT(refused(framed(body)), ContainsSubstring("the file ends inside opcode"));
  }
}

TEST_CASE("the memo cannot be larger than the pickle") {
  CHECK_THAT(refused(framed("Nr\xff\xff\xff\xff")),
             ContainsSubstring("puts object 4294967295 into the memo"));
  CHECK_THAT(refused(framed("h\x05")),
             ContainsSubstring("asks for object 5, which the memo does not hold"));
}

TEST_CASE("an integer beyond 64 bits is read as a placeholder, whatever its length") {
  CHECK(read(framed("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\x00"s)) == INT64_MAX);
  CHECK(read(framed("\x8a\x0a\x00\x00\x00\x00\x00\x00\x00\x80\xff\xff"s)) == INT64_MIN);
  CHECK(read(framed("\x8a\x00"s)) == 0);
  CHECK(read(framed("\x8b\x02\x00\x00\x00\x00\x80"s)) == -32768);
  for (const std::int64_t edge : {std::int64_t{1} << 59, -(std::int64_t{1} << 59) - 1,
                                  (std::int64_t{1} << 59) - 1, -(std::int64_t{1} << 59)}) {
    CHECK(read(to_pickle(edge)) == edge);
  }
  constexpr const char* beyond = "an integer beyond 64 bits";
  CHECK(read(framed("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00"s)) == beyond);
  CHECK(read(framed("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\x80"s)) == beyond);
  CHECK(read(framed("\x8b\xe8\x03\x00\x00"s + std::string(1000, '\x01'))) == beyond);
}

TEST_CASE("nesting deeper than the limit is refused, however deep it is") {
  const auto nested = [](std::size_t depth) {
    std::string body(depth, ']');
    return framed(body + std::string(depth - 1, 'a'));
  };
  TraceLimits limits;
  limits.max_depth = 5;
  CHECK(refused(nested(5), limits).empty());
  CHECK_THAT(refused(nested(6), limits), ContainsSubstring("nested more than 5 deep"));
  CHECK_THAT(refused(nested(1'000'000)), ContainsSubstring("nested more than 64 deep"));
  CHECK_THAT(refused(framed(std::string(1'000'000, '('))),
             ContainsSubstring("nested more than 64 deep"));
}

TEST_CASE("depth is counted along the longest path to a shared object") {
  // b = [[]]; [b, [[b]]]
  TraceLimits limits;
  limits.max_depth = 5;
  const std::string shared = framed(
      "]]q\x01]aa]]h\x01"
      "aa"
      "a");
  CHECK(refused(shared, limits).empty());
  limits.max_depth = 4;
  CHECK(refused(shared, limits).find("nested") != std::string::npos);
}

TEST_CASE("an object that contains itself is refused") {
  CHECK_THAT(refused(framed("]q\x00h\x00"
                            "a"s)),
             ContainsSubstring("an object contains itself"));
  CHECK_THAT(refused(framed("}q\x00K\x01h\x00s"s)), ContainsSubstring("an object contains itself"));
  CHECK_THAT(refused(framed("]q\x00h\x00\x85q\x01"
                            "a"s)),
             ContainsSubstring("an object contains itself"));
}

TEST_CASE("objects that are shared many times cost no more than their length") {
  // Twenty levels of [x, x]: a million leaves in a hundred bytes.
  std::string body =
      "]q\x00"
      "0"s;
  for (char level = 0; level < 20; ++level) {
    body += "](h"s + level + "h" + level + "eq" + static_cast<char>(level + 1) + "0";
  }
  const ValueTree tree = read_pickle(framed(body + "h\x14"), "file");
  CHECK(tree.root().size() == 2);
}

TEST_CASE("more values than the limit are refused") {
  TraceLimits limits;
  limits.max_values = 10;
  CHECK(refused(framed("](" + std::string(9, 'N') + "e"), limits).empty());
  CHECK_THAT(refused(framed("](" + std::string(10, 'N') + "e"), limits),
             ContainsSubstring("byte 13: more than 10 values"));
}

TEST_CASE("the last of equal keys in a dict counts, as in Python") {
  const ValueTree tree = read_pickle(framed("}(\x8c\x01kK\x01\x8c\x01kK\x02u"), "file");
  CHECK(tree.root().find("k")->integer() == 2);
  CHECK_FALSE(tree.root().find("other"));
}

TEST_CASE("str of Python 2 is read as a string") {
  CHECK(read("\x80\x02U\x02"
             "abT\x01\x00\x00\x00"
             "c\x86."s) == json::array({"ab", "c"}));
}

TEST_CASE("JSON gives the same tree as the pickle of the same data") {
  const json data = {{"a", {1, -2, 2.5, nullptr, true, {{"b", "text"}}}}, {"c", json::object()}};
  const ValueTree from_json = read_json(data.dump(), "file");
  CHECK(to_json(from_json.root()) == data);
  CHECK(read(to_pickle(data)) == data);
}

TEST_CASE("JSON that is malformed, too deep or too long is refused with line and column") {
  const auto refused_json = [](const std::string& text, const TraceLimits& limits = {}) {
    return refusal([&] { return read_json(text, "file", limits); });
  };
  CHECK(refused_json("{\"a\":\n [1, 2") ==
        "file: line 2, column 7: this is not JSON: found the end of the text where ',' or ']' must "
        "stand");
  CHECK(refused_json(std::string(100'000, '[')) ==
        "file: line 1, column 65: nested more than 64 deep");
  TraceLimits limits;
  limits.max_values = 3;
  CHECK_THAT(refused_json("[1,2,3]", limits), ContainsSubstring("more than 3 values"));
}

TEST_CASE("numbers and text that no field uses are accepted") {
  const ValueTree tree = read_json(
      "[18446744073709551615, -9223372036854775809, 1e1111, \"\\ud800 \xff\", 9223372036854775807]",
      "file");
  CHECK(tree.root().item(0).is(ValueKind::big_integer));
  CHECK(tree.root().item(1).is(ValueKind::big_integer));
  CHECK(std::isinf(tree.root().item(2).real()));
  CHECK(tree.root().item(3).text() == "\xed\xa0\x80 \xff");
  CHECK(tree.root().item(4).integer() == INT64_MAX);
}

TEST_CASE("a string of any length is read from a pickle and from JSON") {
  for (const std::size_t length : {std::size_t{(1 << 20) - 1}, std::size_t{1 << 20}}) {
    const json data = json::array({std::string(length, 'x'), "y"});
    CHECK(read(to_pickle(data)) == data);
    CHECK(to_json(read_json(data.dump(), "file").root()) == data);
  }
}

TEST_CASE("lists that grow in turn keep their items") {
  // Appends to two lists of the memo, one item at a time and many at once.
  std::string body = "]q\x00]q\x01\x86q\x02"s + "0"s;
  json expected = json::array({json::array(), json::array()});
  for (int i = 0; i < 200; ++i) {
    const int which = (i * 7 + i / 3) % 2;
    body += "h"s + static_cast<char>(which);
    if (i % 5 == 0) {
      body +=
          "(K\x01K\x02K\x03"
          "e0";
      for (int value : {1, 2, 3}) expected[which].push_back(value);
    } else {
      body += "K"s + static_cast<char>(i % 128) + "a0";
      expected[which].push_back(i % 128);
    }
  }
  CHECK(read(framed(body + "h\x02")) == expected);
}
