#include "cli/results.hpp"

#include "cli/json_text.hpp"
#include "cli/standard_output.hpp"
#include "cli/values.hpp"

namespace millrace::cli {

namespace {

/** "table" is a former name of "text". */
bool reads_as_json(const std::string& format) {
  return format != "table" && read_name("--format", "format", format, {"text", "json"}) == "json";
}

}  // namespace

void add_result_options(Command& command, ResultArguments& given) {
  command.add("--format", given.format, "KIND", "Write the results as text (default) or json");
  command.output("--json", given.json, "FILE",
                 "Write the results as JSON to this file as well; with -, they replace the text on "
                 "standard output",
                 Result::in_place);
  command.output("-o,--output", given.output, "FILE",
                 "Write the results to this file once they are complete (default: standard output)",
                 Result::main);
}

void add_wide_option(Command& command, bool& wide) {
  command.flag("--wide", wide, "Show all columns of the table, and explain them");
}

Results::Results(const ResultArguments& given) : json_is_main_(reads_as_json(given.format)) {
  if (given.json) json_.emplace(given.json, "--json");
  if (given.output || !json_ || !json_->to_stdout()) main_.emplace(given.output);
}

void Results::write(const std::function<std::string(const Painter&)>& text,
                    const std::function<nlohmann::ordered_json()>& document) const {
  if (json_) json_->write(json_text(document()));
  if (!main_) return;
  if (json_is_main_) {
    main_->write(json_text(document()));
  } else {
    main_->write(text(Painter{main_->to_stdout() && colors_on_stdout()}));
  }
}

bool RunningResults::prints() const { return results_.main_ && results_.main_->to_stdout(); }

Painter RunningResults::painter() const { return Painter{prints() && colors_on_stdout()}; }

void RunningResults::say(const std::string& part) {
  if (results_.json_is_main_ || !results_.main_) return;
  if (prints()) {
    print(part);
  } else {
    collected_ += part;
  }
}

void RunningResults::finish(const std::function<nlohmann::ordered_json()>& document) const {
  results_.write([&](const Painter&) { return collected_; }, document);
}

}  // namespace millrace::cli
