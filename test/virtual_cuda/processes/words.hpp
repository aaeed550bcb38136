#pragma once

#include <cstdio>
#include <set>
#include <sstream>
#include <string>

/// The first word of each line that a shell command prints.
inline std::set<std::string> words_of_command(const std::string& command) {
  std::set<std::string> words;
  std::FILE* const pipe = popen(command.c_str(), "r");
  char line[512];
  while (pipe != nullptr && std::fgets(line, sizeof line, pipe) != nullptr) {
    std::istringstream text{line};
    std::string word;
    text >> word;
    words.insert(word);
  }
  if (pipe != nullptr) pclose(pipe);
  return words;
}
