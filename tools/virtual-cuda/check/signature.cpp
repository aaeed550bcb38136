#include "check/signature.hpp"

namespace millrace::virtual_cuda {
namespace {

bool opens(char letter) { return letter == '(' || letter == '<' || letter == '{' || letter == '['; }
bool closes(char letter) {
  return letter == ')' || letter == '>' || letter == '}' || letter == ']';
}

/** Index of the parenthesis that opens the parameter list; npos if the name ends otherwise. */
std::size_t list_of(std::string_view name) {
  if (name.empty() || name.back() != ')') return std::string_view::npos;
  std::size_t depth = 0;
  for (std::size_t i = name.size(); i-- > 0;) {
    if (name[i] == ')') ++depth;
    if (name[i] == '(' && --depth == 0) return i;
  }
  return std::string_view::npos;
}

void add(std::string_view parameter, std::size_t index, std::vector<PointerParameter>& found) {
  while (!parameter.empty() && parameter.back() == ' ') parameter.remove_suffix(1);
  if (!parameter.ends_with('*')) return;
  parameter.remove_suffix(1);
  found.push_back({index, !parameter.ends_with("const")});
}

}  // namespace

std::optional<std::vector<PointerParameter>> pointer_parameters(std::string_view readable) {
  const std::size_t open = list_of(readable);
  if (open == std::string_view::npos) return std::nullopt;
  const std::string_view list = readable.substr(open + 1, readable.size() - open - 2);
  std::vector<PointerParameter> found;
  std::size_t index = 0;
  std::size_t begin = 0;
  std::size_t depth = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (opens(list[i])) ++depth;
    if (closes(list[i]) && depth > 0) --depth;
    if (list[i] != ',' || depth != 0) continue;
    add(list.substr(begin, i - begin), index++, found);
    begin = i + 1;
  }
  add(list.substr(begin), index, found);
  return found;
}

std::string_view function_name(std::string_view readable) {
  const std::size_t open = list_of(readable);
  if (open == std::string_view::npos) return readable;
  std::string_view name = readable.substr(0, open);
  std::size_t depth = 0;
  for (std::size_t i = name.size(); i-- > 0;) {
    if (closes(name[i])) ++depth;
    if (opens(name[i]) && depth > 0) --depth;
    if (name[i] == ' ' && depth == 0) return name.substr(i + 1);
  }
  return name;
}

}  // namespace millrace::virtual_cuda
