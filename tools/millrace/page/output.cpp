#include "page/output.hpp"

#include <sstream>

namespace millrace::cli {
namespace {

constexpr const char* kHtml = "--html";

}  // namespace

void add_page_option(Command& command, std::optional<std::string>& file) {
  command.output("--html", file, "PAGE",
                 "Write a page for a browser as well; the file needs no network", Result::further);
}

PageOutput::PageOutput(const std::string& file) : output_(file, kHtml) { require_page(); }

void PageOutput::write(const PageData& data) const {
  std::ostringstream text;
  write_page(data, text);
  output_.write(text.view());
}

}  // namespace millrace::cli
