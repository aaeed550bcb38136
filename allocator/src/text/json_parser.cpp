#include "text/json_parser.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "millrace/text/utf8.hpp"

namespace millrace::text {
namespace {

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

bool is_word(char letter) {
  return is_digit(letter) || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         letter == '_' || letter == '-' || letter == '+' || letter == '.';
}

class Parser {
 public:
  Parser(std::string& text, JsonHandler& handler, const JsonRules& rules)
      : text_{text}, handler_{handler}, rules_{rules} {}

  void run() {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // a byte order mark
    try {
      skip_space();
      read_value();
      while (!open_.empty()) read_next();
      skip_space();
      if (at_ != text_.size()) fail("the document must end");
    } catch (const JsonProblem& problem) {
      throw JsonError{problem.what(), line_, token_ - line_begin_ + 1};
    }
  }

 private:
  // --- errors ---

  [[nodiscard]] std::string found() const {
    constexpr std::size_t longest = 20;
    if (at_ >= text_.size()) return "the end of the text";
    const char letter = text_[at_];
    std::size_t end = at_;
    while (end < text_.size() && end - at_ < longest && is_word(text_[end])) ++end;
    if (end > at_) return fmt::format("'{}'", std::string_view{text_}.substr(at_, end - at_));
    if (letter == '\'') return "a single quote";
    if (letter > ' ' && letter <= '~') return fmt::format("'{}'", letter);
    return fmt::format("the byte {:#04x}", static_cast<unsigned char>(letter));
  }

  /** Refuses the text at `at_`. `right` says what must be there: "a value must stand". */
  [[noreturn]] void fail(std::string_view right) {
    token_ = at_;
    throw JsonProblem{fmt::format("this is not JSON: found {} where {}", found(), right)};
  }

  [[noreturn]] void fail_value() {
    const bool closing = at_ < text_.size() && (text_[at_] == ']' || text_[at_] == '}');
    fail(closing && after_comma_ ? "a value must stand: no comma follows the last one"
                                 : "a value must stand");
  }

  // --- tokens ---

  [[nodiscard]] bool looks_at(char letter) const {
    return at_ < text_.size() && text_[at_] == letter;
  }

  // Only spaces between tokens contain line ends: in strings they are escaped.
  void skip_space() {
    for (; at_ < text_.size(); ++at_) {
      const char letter = text_[at_];
      if (letter == '\n') {
        ++line_;
        line_begin_ = at_ + 1;
      } else if (letter != ' ' && letter != '\t' && letter != '\r') {
        break;
      }
    }
    token_ = at_;
  }

  void expect_word(std::string_view word) {
    if (std::string_view{text_}.substr(at_, word.size()) != word) fail_value();
    at_ += word.size();
    if (at_ < text_.size() && is_word(text_[at_])) {
      at_ -= word.size();
      fail_value();
    }
  }

  void skip_digits() {
    if (at_ == text_.size() || !is_digit(text_[at_])) fail("a digit must stand");
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  }

  void read_number() {
    bool whole = true;
    if (looks_at('-')) ++at_;
    if (looks_at('0')) {
      ++at_;
    } else {
      skip_digits();
    }
    if (looks_at('.')) {
      whole = false;
      ++at_;
      skip_digits();
    }
    if (looks_at('e') || looks_at('E')) {
      whole = false;
      ++at_;
      if (looks_at('+') || looks_at('-')) ++at_;
      skip_digits();
    }
    if (at_ < text_.size() && is_word(text_[at_])) fail("a number must end");
    handler_.number(std::string_view{text_}.substr(token_, at_ - token_), whole);
  }

  // --- strings ---

  std::uint32_t read_hexadecimal() {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char letter = at_ < text_.size() ? text_[at_] : '\0';
      if (is_digit(letter)) {
        value = value * 16 + static_cast<std::uint32_t>(letter - '0');
      } else if ((letter | 0x20) >= 'a' && (letter | 0x20) <= 'f') {
        value = value * 16 + static_cast<std::uint32_t>((letter | 0x20) - 'a' + 10);
      } else {
        fail("four hexadecimal digits must follow \\u");
      }
    }
    return value;
  }

  std::uint32_t read_code_point() {
    const std::size_t begin = at_ - 2;
    const std::uint32_t unit = read_hexadecimal();
    if (unit < 0xd800 || unit > 0xdfff) return unit;
    const bool pair = unit < 0xdc00 && std::string_view{text_}.substr(at_, 2) == "\\u";
    if (pair) {
      const std::size_t second = at_;
      at_ += 2;
      const std::uint32_t low = read_hexadecimal();
      if (low >= 0xdc00 && low <= 0xdfff) return 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
      at_ = second;
    }
    if (rules_.judge_strings) {
      token_ = begin;
      throw JsonProblem{
          "a surrogate pair is not complete: \\ud800 to \\udbff must be followed by "
          "\\udc00 to \\udfff"};
    }
    return unit;
  }

  /** Writes the character of the escape at `at_`, after its backslash, to `out`. */
  char* unescape(char* out) {
    constexpr std::string_view names = "\"\\/bfnrt";
    constexpr std::string_view values = "\"\\/\b\f\n\r\t";
    const char letter = at_ < text_.size() ? text_[at_] : '\0';
    if (letter == 'u') {
      ++at_;
      return write_utf8(read_code_point(), out);
    }
    const std::size_t name = names.find(letter);
    if (name == std::string_view::npos) fail("one of \"\\/bfnrtu must follow a backslash");
    ++at_;
    *out = values[name];
    return out + 1;
  }

  void skip_utf8() {
    const std::size_t length = utf8_length(std::string_view{text_}.substr(at_));
    if (length == 0 && rules_.judge_strings) fail("a character in UTF-8 must stand");
    at_ += length == 0 ? 1 : length;
  }

  /**
   * Reads from the opening quote past the closing one. Unescapes in place, because an unescaped
   * string is never longer than the escaped one.
   */
  std::string_view read_string() {
    const std::size_t begin = ++at_;
    char* out = nullptr;  // nullptr until something was unescaped
    while (true) {
      if (at_ == text_.size()) fail("a string must end with a quote");
      const char letter = text_[at_];
      if (letter == '"') break;
      const std::size_t from = at_;
      if (letter == '\\') {
        if (out == nullptr) out = text_.data() + at_;
        ++at_;
        out = unescape(out);
        continue;
      }
      if (static_cast<unsigned char>(letter) < ' ') fail("a string goes on or ends with a quote");
      if (static_cast<unsigned char>(letter) < 0x80) {
        ++at_;
      } else {
        skip_utf8();
      }
      for (std::size_t i = from; out != nullptr && i < at_; ++i) *out++ = text_[i];
    }
    const std::size_t end = out == nullptr ? at_ : static_cast<std::size_t>(out - text_.data());
    ++at_;
    return std::string_view{text_}.substr(begin, end - begin);
  }

  // --- values ---

  void open(bool object) {
    if (open_.size() == rules_.max_depth) {
      throw JsonProblem{fmt::format("nested more than {} deep", rules_.max_depth)};
    }
    ++at_;
    open_.push_back(object);
    first_ = true;
    if (object) return handler_.begin_object();
    handler_.begin_list();
  }

  void read_value() {
    switch (at_ < text_.size() ? text_[at_] : '\0') {
      case '{':
        return open(true);
      case '[':
        return open(false);
      case '"':
        return handler_.string(read_string());
      case 'n':
        expect_word("null");
        return handler_.null();
      case 't':
        expect_word("true");
        return handler_.boolean(true);
      case 'f':
        expect_word("false");
        return handler_.boolean(false);
      default:
        if (!looks_at('-') && (at_ == text_.size() || !is_digit(text_[at_]))) fail_value();
        return read_number();
    }
  }

  void read_key() {
    if (!looks_at('"')) {
      fail(looks_at('}') && after_comma_ ? "a key must stand: no comma follows the last entry"
                                         : "a key in double quotes must stand");
    }
    handler_.key(read_string());
    skip_space();
    if (!looks_at(':')) fail("':' must follow the key");
    ++at_;
    after_comma_ = false;
    skip_space();
  }

  /** Reads the next item or entry of the innermost list or object, or its end. */
  void read_next() {
    const bool object = open_.back();
    skip_space();
    if (looks_at(object ? '}' : ']')) {
      ++at_;
      open_.pop_back();
      first_ = false;
      return handler_.end();
    }
    after_comma_ = !first_;
    if (!first_) {
      if (!looks_at(',')) fail(object ? "',' or '}' must stand" : "',' or ']' must stand");
      ++at_;
      skip_space();
    }
    first_ = false;
    if (object) read_key();
    read_value();
  }

  std::string& text_;
  JsonHandler& handler_;
  const JsonRules& rules_;
  std::size_t at_ = 0;
  std::size_t token_ = 0;  ///< begin of the current token
  std::size_t line_ = 1, line_begin_ = 0;
  std::vector<bool> open_;  ///< objects and lists that are open; true: an object
  bool first_ = false;      ///< nothing was read of the innermost one yet
  bool after_comma_ = false;
};

}  // namespace

void parse_json(std::string& text, JsonHandler& handler, const JsonRules& rules) {
  Parser{text, handler, rules}.run();
}

}  // namespace millrace::text
